"""The simulator: plays a plan's operations against a clock."""
