"""A few rounds of `fuzz.py`, so that its long runs begin with a script that works."""

import json
import subprocess
import sys
from pathlib import Path


def test_a_few_rounds_of_damage(tmp_path):
    out = tmp_path / "fuzz.json"
    # From this round on, the first eight have all formats.
    which = ["--first", "46", "--rounds", "12"]
    command = [sys.executable, Path(__file__).with_name("fuzz.py"), *which]
    done = subprocess.run([*command, "--out", out], capture_output=True, text=True, check=False)
    found = json.loads(out.read_bytes())
    assert (found["failures"], found["hangs"]) == ([], 0), done.stderr
    assert found["formats"].keys() == {"cloze", "docx", "dream", "pdf", "race", "rte", "squad"}
    assert found["answered"] > 0
    assert 0 < found["printed_refused"] < found["printed"]
