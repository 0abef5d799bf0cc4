"""Assembly of papers from recognised text and lists."""
