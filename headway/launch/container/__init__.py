"""Containers for training: what Ascend and NVIDIA hosts must give them, as one spec with two renderers."""
