"""Where the work runs, and next to what: devices, processes, memory, seeds."""
