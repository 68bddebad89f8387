"""The software that runs a job, as facts that change its time and memory: Headway's own and those of others."""
