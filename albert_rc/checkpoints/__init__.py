"""Checkpoints: finding, checking, loading and saving models; other libraries' parameter names."""
