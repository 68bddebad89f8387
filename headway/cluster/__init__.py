"""The machines: devices, nodes and links as physical numbers, and the presets known by name."""
