"""The local web page and HTTP API of `albert-rc serve`."""
