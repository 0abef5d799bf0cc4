"""Text processing: normalisation, tokenisation, vocabularies."""
