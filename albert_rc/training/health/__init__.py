"""Training health: detection of collapse, and restarts."""
