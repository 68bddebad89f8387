"""Words in, words out: the command line, one file for each verb, and the only package that prints."""
