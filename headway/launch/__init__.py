"""Plan → processes: starts the trainer by command line and explains how it ended."""
