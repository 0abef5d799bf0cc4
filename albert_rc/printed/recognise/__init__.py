"""Lines to what they are: text, options, numbers, keys."""
