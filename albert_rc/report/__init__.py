"""The HTML report: an error analysis of answers and probabilities against the right answers."""
