import errno
import os
import random
import re
import stat
import subprocess
import sys
import tempfile
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from albert_rc.errors import DataError, UsageError
from albert_rc.io.atomic import atomic_path, require_writable, write_bytes, write_together
from albert_rc.io.files import natural_key, read_bytes, unreadable
from albert_rc.io.json import parse_json, read_json, to_json, write_json
from albert_rc.io.pt import STORAGES, TensorStream, load_tensors, save_tensors


def test_natural_order_counts():
    names = ["test10.json", "test2.json", "test1.json", "a", "10", "9"]
    assert sorted(names, key=natural_key) == [
        "9",
        "10",
        "a",
        "test1.json",
        "test2.json",
        "test10.json",
    ]


def parts_of(name):
    """What `natural_key` puts into one text: numbers by size, before texts."""
    parts = re.findall(r"\d+|\D+", name)
    numbers = [p.lstrip("0") if p.isascii() and p.isdigit() else None for p in parts]
    return [(1, 0, p) if n is None else (0, len(n), n) for p, n in zip(parts, numbers, strict=True)]


def test_the_natural_key_orders_as_its_parts_do():
    rng = random.Random(0)
    names = ["".join(rng.choices("ab01\0\1\u06659./é", k=rng.randrange(7))) for _ in range(3000)]
    for a, b in pairwise(names):
        key_a, key_b = natural_key(a), natural_key(b)
        assert (key_a < key_b, key_a == key_b) == (
            parts_of(a) < parts_of(b),
            parts_of(a) == parts_of(b),
        )


def test_a_failed_write_leaves_the_old_file(tmp_path):
    target = tmp_path / "answer.json"
    write_json(target, {"old": 1})
    with pytest.raises(RuntimeError, match="half"), atomic_path(target) as temporary:
        temporary.write_text("new, but")
        raise RuntimeError("half")
    assert read_json(target) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["answer.json"]


def test_the_content_is_on_the_disk_before_the_name_and_the_name_after(tmp_path, monkeypatch):
    """Otherwise a power cut could leave a name without its content."""
    done, sync, rename = [], os.fsync, Path.replace

    def synced(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def renamed(path, target):
        done.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    with atomic_path(tmp_path / "a.json") as temporary:
        temporary.write_text("{}")
    assert done == ["file", "rename", "folder"]


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    link, real = tmp_path / "answer.json", tmp_path / "far" / "real.json"
    link.symlink_to(real)
    for content in (b"first", b"second"):
        write_bytes(link, content)
        assert link.is_symlink()
        assert real.read_bytes() == content


def test_a_device_or_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        for write in (lambda target: write_bytes(target, b"x"), require_writable):
            with pytest.raises(UsageError, match="is a device or a pipe"):
                write(path)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_an_output_that_was_sent_into_a_file_is_not_replaced(sample, tmp_path):
    """`predict --out /dev/stdout >> log` would put a new file in the place of the log."""
    log, link = tmp_path / "log", tmp_path / "link.json"
    link.symlink_to("/dev/fd/1")
    for out in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", link):
        log.write_text("kept\n")
        command = [sys.executable, "-m", "albert_rc", "report", "nowhere", "nowhere", "--out", out]
        with log.open("a") as stdout:
            done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 2
        assert b"is a device or a pipe, not a file; name a file" in done.stderr
        assert log.read_text() == "kept\n"
    shared = Path("/dev/shm")
    if shared.is_dir():  # files as others, in memory
        with tempfile.TemporaryDirectory(dir=shared) as folder:
            write_bytes(Path(folder) / "a.json", b"x")


def test_files_written_together_appear_together(tmp_path):
    def fail(path):
        raise OSError("disk full")

    targets = {tmp_path / "a.pt": lambda p: p.write_text("a"), tmp_path / "b.pt": fail}
    with pytest.raises(OSError, match="disk full"):
        write_together(targets)
    assert list(tmp_path.iterdir()) == []


def test_more_files_together_than_may_usually_be_open(tmp_path):
    code = """
import resource, sys
from pathlib import Path
from albert_rc.io.atomic import write_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
write_files({Path(sys.argv[1]) / f"{i}.json": b"{}" for i in range(600)})
"""
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    assert len(list(tmp_path.iterdir())) == 600
    narrow = code.replace("(256, resource.getrlimit(resource.RLIMIT_NOFILE)[1])", "(256, 512)")
    assert narrow != code
    done = subprocess.run(
        [sys.executable, "-c", narrow, tmp_path / "b"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "600 files are to be written together, but the system lets a process open" in done.stderr
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": 1,\n oops}', "line 2"),
        (b'{"a": "caf\xe9"}', "0xe9 in line 1 is not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-16"),
    ],
)
def test_bad_json_is_located(content, said):
    with pytest.raises(ValueError, match=said):
        parse_json(content)


def test_a_byte_order_mark_is_no_error():
    assert parse_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_stores_hold_no_pickled_classes(tmp_path):
    path = tmp_path / "x.pt"
    save_tensors(path, {"token": torch.arange(3)}, {"kind": "cloze"})
    tensors, meta = load_tensors(path)
    assert torch.equal(tensors["token"], torch.arange(3))
    assert meta == {"kind": "cloze"}


def test_a_store_is_what_torch_would_have_written(tmp_path):
    ours, theirs = tmp_path / "a.pt", tmp_path / "b.pt"
    tensors = {
        f"{name}{n}": torch.randint(-(2**15), 2**15, (n,)).to(getattr(torch, name))
        for name in STORAGES
        for n in (0, 1, 70_001)
    }
    save_tensors(ours, tensors, {"ids": ["é", "_"]})
    meta = load_tensors(ours)[1]
    torch.save({"format": 1, "meta": to_json(meta).decode(), **tensors}, theirs)
    for options in ({}, {"mmap": True}):
        found = torch.load(ours, weights_only=True, **options)
        expected = torch.load(theirs, weights_only=True, **options)
        assert list(found) == list(expected)
        for name, value in expected.items():
            if isinstance(value, torch.Tensor):
                assert found[name].dtype == value.dtype
                assert found[name].data_ptr() % 64 == 0
                assert torch.equal(found[name], value)
            else:
                assert found[name] == value
    assert zipfile.ZipFile(ours).testzip() is None


def test_a_stream_that_breaks_off_is_noticed(tmp_path):
    stream = TensorStream("int32", 3, lambda: [b"1234", b"5678"])
    with pytest.raises(ValueError, match="data/0: 8 bytes instead of 12"):
        save_tensors(tmp_path / "x.pt", {"token": stream}, {})


class Evil:
    def __reduce__(self):
        return print, ("code was run",)


def test_a_pickle_is_never_run(tmp_path, capsys):
    path = tmp_path / "x.pt"
    torch.save({"format": 1, "meta": "{}", "token": Evil()}, path)
    with pytest.raises(DataError, match="not a readable store"):
        load_tensors(path)
    assert "code was run" not in capsys.readouterr().out


def test_a_torn_store_is_named(tmp_path):
    path = tmp_path / "x.pt"
    save_tensors(path, {"token": torch.arange(3000)}, {})
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match=r"x\.pt: not a readable store.*albert-rc preprocess"):
        load_tensors(path)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(2, "No such file"), "no such file; check the path"),
        (IsADirectoryError(21, "Is a directory"), "is a folder; give the path of a file"),
        (PermissionError(13, "Permission denied"), "(Permission denied); check its permissions"),
        (OSError(5, "Input/output error"), "cannot be read (Input/output error)"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(error, said):
    message = str(unreadable(Path("answers.json"), error))
    assert message.startswith("answers.json: ")
    assert message.endswith(said)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EACCES])
def test_a_folder_that_cannot_be_synced_does_not_undo_a_file(tmp_path, monkeypatch, number):
    sync, calls = os.fsync, []

    def refused(handle):
        calls.append(handle)
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        sync(handle)

    monkeypatch.setattr(os, "fsync", refused)
    write_bytes(tmp_path / "a", b"1")
    assert len(calls) == 2
    assert (tmp_path / "a").read_bytes() == b"1"


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    with pytest.raises(DataError, match="no such file; check the path"):
        read_bytes(tmp_path / "missing.json")
    with pytest.raises(DataError, match="is a folder"):
        read_bytes(tmp_path)
