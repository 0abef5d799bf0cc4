"""The runtime: devices, processes, memory, seeds."""
