"""What is kept of freed memory, and that it goes back where there is too much of it."""

import sys

import pytest
from commands import start_python

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="about glibc's heap")

SCATTERED = """
import torch
from albert_rc import heap

heap.keep_freed_memory(most={most})
base = heap.resident()
pins, blocks = [], []
for _ in range(400):  # 400 MiB, with something small and lasting behind each MiB
    blocks.append(torch.ones(2**18))
    pins.append(torch.ones(2**9))
del blocks
before = heap.resident() - base
went = heap.hand_back()
print(went, before >> 20, (heap.resident() - base) >> 20)
"""


@LINUX
@pytest.mark.parametrize(("most", "goes"), [("base_plus", True), ("None", False)])
def test_free_memory_goes_back_where_too_much_is_held(most, goes):
    most = "heap.resident() + 2**27" if goes else most
    done = start_python("-c", SCATTERED.format(most=most))
    assert done.returncode == 0, done.stderr
    went, before, after = done.stdout.split()
    assert went == str(goes)
    assert int(before) > 350
    assert int(after) < 50 if goes else int(after) > 350
