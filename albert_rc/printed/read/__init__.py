"""Reading of the lines of a printed file of any kind."""
