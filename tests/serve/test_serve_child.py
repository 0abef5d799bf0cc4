"""The process that reads printed papers: what it knows, how long it lives, when it ends."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from pdfs import objects_of, page_of, pdf_of

from albert_rc.runtime.pool import cores
from albert_rc.serve.workplace import YOUNG, clear_away, workplace

pytest.importorskip("starlette", reason="no starlette; pip install 'albert-rc[serve]'")
pytest.importorskip("pdfplumber", reason="no pdfplumber; pip install 'albert-rc[import]'")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SERVER = """
import sys
from pathlib import Path
from albert_rc.serve.limits import Limits
from albert_rc.serve.printed import read_printed
from albert_rc.serve.uploads import make_upload

read_printed(make_upload(Path(sys.argv[1]).read_bytes()), None, Limits(read_seconds=100))
"""


@pytest.fixture(scope="module")
def slow_pdf(tmp_path_factory):
    """A PDF that takes minutes to read: one page, thousands of times."""
    page = page_of(["It was a dark night. " * 4] * 80)
    path = tmp_path_factory.mktemp("slow") / "paper.pdf"
    path.write_bytes(pdf_of(objects_of([page], times=2000)))
    return path


def state_of(process):
    """Its state and its parent, or None where it is gone."""
    try:
        said = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    state, parent = said.rpartition(") ")[2].split()[:2]
    return None if state in "ZX" else (state, int(parent))


def children(parent):
    numbers = [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]
    return [number for number in numbers if (found := state_of(number)) and found[1] == parent]


def until(true, seconds=20):
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def test_it_knows_little_and_ends_with_the_server(slow_pdf, tmp_path, monkeypatch):
    given = {"SECRET_TOKEN": "of the server", "LANG": "C.UTF-8", "TMPDIR": str(tmp_path)}
    environment = os.environ | given
    server = subprocess.Popen([sys.executable, "-c", SERVER, slow_pdf], env=environment)
    try:
        (child,) = until(lambda: children(server.pid))
        limits, environ = (Path(f"/proc/{child}/{name}") for name in ("limits", "environ"))
        most = 161 * cores()  # of all its threads
        until(lambda: re.search(rf"Max cpu time +{most} ", limits.read_text()))  # it is at work
        known = dict(entry.split("=", 1) for entry in environ.read_text().split("\0") if entry)
        assert "SECRET_TOKEN" not in known
        assert known.keys() <= {
            "PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LANGUAGE", "LC_ALL",
            "LC_CTYPE", "TMPDIR", "TEMP", "TMP",
        }  # fmt: skip
        assert known["LANG"] == "C.UTF-8"
    finally:
        server.kill()
        server.wait()
    until(lambda: state_of(child) is None, seconds=5)
    # What a killed server leaves goes with the next one's start.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (left,) = tmp_path.iterdir()
    clear_away()
    assert left.exists()  # it may be another server's, which is about to lock it
    old = time.time() - 2 * YOUNG
    with workplace() as used:
        for folder in (left, used):
            os.utime(folder, (old, old))
        clear_away()
        assert [*tmp_path.iterdir()] == [used]
    assert not [*tmp_path.iterdir()]


def test_its_time_is_counted_by_the_system(slow_pdf):
    command = [sys.executable, "-P", "-m", "albert_rc.serve.printed", str(10**9), "2"]
    child = subprocess.Popen([*command, str(os.getpid()), slow_pdf.name], cwd=slow_pdf.parent)
    began = time.monotonic()
    assert child.wait(60) == -signal.SIGKILL  # the hard limit; what it says is not to be caught
    assert time.monotonic() - began < 30


def test_an_orphan_does_not_begin(slow_pdf):
    command = [sys.executable, "-P", "-m", "albert_rc.serve.printed", str(10**9), "60", "1"]
    done = subprocess.run([*command, slow_pdf.name], cwd=slow_pdf.parent, timeout=30, check=False)
    assert done.returncode == 1
