"""The entry point of `albert-rc`, and of `python -m albert_rc` for torchrun."""

import signal


def main() -> None:
    """Run the command line.

    Ctrl-C before the command line can handle it ends the process without a traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    from albert_rc.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
