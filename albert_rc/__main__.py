"""`python -m albert_rc`, which is what torchrun starts."""

from albert_rc.cli.app import main

if __name__ == "__main__":
    main()
