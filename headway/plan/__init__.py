"""The document: a job file built into a Plan, what its operations cost, its memory, its file and digest."""
