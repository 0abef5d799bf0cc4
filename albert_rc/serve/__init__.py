"""The local page and HTTP API that `albert-rc serve` opens."""
