"""Worker processes: order, bounds, and what happens when one fails."""

import os
import signal
import time
from functools import partial
from itertools import count, islice

import pytest

from albert_rc.errors import AlbertRcError, DataError, OutOfMemoryError
from albert_rc.runtime.pool import map_in_order


def square(number):
    time.sleep(0.01 * (number % 3))  # so that they finish in another order
    return number * number


def fail_at(bad, how, number):
    if number == bad:
        how()
    return number


def data_error():
    raise DataError("papers/a.json: fix it")


def unpicklable_error():
    class LocalError(Exception):
        pass

    raise LocalError("from within")


def out_of_memory():
    raise MemoryError


def prepare_square():
    return square


def prepare_failing(bad, how):
    return partial(fail_at, bad, how)


def prepare_nothing():
    raise DataError("no vocabulary")


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def leaves():
    os._exit(3)


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_tasks(workers):
    found = list(map_in_order(prepare_square, range(25), workers))
    assert found == [(i, i * i) for i in range(25)]


def test_no_tasks_are_no_results():
    assert list(map_in_order(prepare_square, [], 2)) == []


def test_endless_tasks_are_read_only_a_little_ahead():
    taken = 0

    def tasks():
        nonlocal taken
        for number in count():
            taken += 1
            yield number

    results = map_in_order(prepare_square, tasks(), 2)
    for number, _ in islice(results, 40):
        assert taken - number <= 2 * 4 + 2
    results.close()


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        (data_error, DataError, "papers/a.json: fix it"),
        (unpicklable_error, RuntimeError, "(?s)in a worker process:.*from within"),
        (out_of_memory, MemoryError, None),
        (killed, OutOfMemoryError, "a worker process was killed"),
        (leaves, AlbertRcError, r"ended unexpectedly \(code 3\)"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_told(how, error, said):
    results = map_in_order(partial(prepare_failing, 5, how), range(100), 2)
    with pytest.raises(error, match=said):
        list(results)


def test_a_worker_that_cannot_start_is_told():
    with pytest.raises(DataError, match="no vocabulary"):
        list(map_in_order(prepare_nothing, range(3), 2))
