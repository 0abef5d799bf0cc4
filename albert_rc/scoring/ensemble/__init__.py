"""Ensembles: combining several models' scores."""
