"""Looking at this host: the only code of the doctor that does, each look bounded in time."""
