"""albert-rc: reading comprehension of exam papers with ALBERT."""

__version__ = "0.1.0"
