"""Models on disk: found, checked, loaded, saved. Other libraries' names are known here only."""
