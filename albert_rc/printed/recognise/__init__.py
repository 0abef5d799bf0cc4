"""Recognition of lines: text, options, numbers, keys."""
