"""Whether a run goes well, and what is done if it does not."""
