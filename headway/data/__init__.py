"""Corpora and the order in which their samples are read."""
