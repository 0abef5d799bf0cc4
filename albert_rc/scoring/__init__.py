"""Scoring: metrics of answers and probabilities. Never imports torch."""
