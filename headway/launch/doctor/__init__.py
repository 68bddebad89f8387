"""The doctor: what this host has, whether a job could start on it, and what to do about each thing that is wrong."""
