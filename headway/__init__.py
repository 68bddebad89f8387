"""Headway plans, simulates, trains and compares large-language-model jobs on clusters."""
