"""What workers of an engine do in tests; workers of a cluster import this file by its name."""

import os
import signal
import time

from albert_rc.errors import DataError


def squares(offset=0):
    def square(number):
        if number == 13:
            raise DataError("13 is unlucky")
        return number**2 + offset

    return square


def slow_and_mortal(folder):
    """Work that leaves its process's number in a folder, so that it can be killed."""

    def work(number):
        (folder / f"{os.getpid()}").touch()
        time.sleep(0.05)
        return number

    return work


def deadly():
    """Work that ends its process."""
    return lambda number: os.kill(os.getpid(), signal.SIGKILL)
