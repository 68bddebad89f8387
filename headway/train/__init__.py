"""The trainer: plays a plan's operations against torch, and measures what the simulator predicts."""
