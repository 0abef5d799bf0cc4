"""One HTML file from answers, probabilities and gold: what was wrong, and where to look next."""
