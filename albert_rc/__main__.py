"""`python -m albert_rc`: the entry point for torchrun."""

from albert_rc.cli.app import main

if __name__ == "__main__":
    main()
