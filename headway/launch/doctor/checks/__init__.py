"""Judging a described host: one pure function for each question, host → findings."""
