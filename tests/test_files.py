import pytest
import torch

from albert_rc.errors import DataError
from albert_rc.files import (
    atomic_path,
    load_tensors,
    natural_key,
    parse_json,
    read_json,
    save_tensors,
    write_json,
    write_together,
)


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


def test_a_failed_write_leaves_the_old_file(tmp_path):
    target = tmp_path / "answer.json"
    write_json(target, {"old": 1})
    with pytest.raises(RuntimeError, match="half"), atomic_path(target) as temporary:
        temporary.write_text("new, but")
        raise RuntimeError("half")
    assert read_json(target) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["answer.json"]


def test_files_written_together_appear_together(tmp_path):
    def fail(path):
        raise OSError("disk full")

    targets = {tmp_path / "a.pt": lambda p: p.write_text("a"), tmp_path / "b.pt": fail}
    with pytest.raises(OSError, match="disk full"):
        write_together(targets)
    assert list(tmp_path.iterdir()) == []


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
