"""The import rules of docs/architecture.md, read from the source."""

import ast
import subprocess
import sys

import pytest
from conftest import ROOT

PACKAGE = ROOT / "albert_rc"
FLOOR = {
    "errors", "config", "files", "tensorfile", "tokenizer", "batch", "metrics", "seeds", "devices",
    "families", "atomic", "watch", "costs", "weightfile", "scores", "cleaning", "hub", "jsonkeys",
    "wording", "hubconfig", "heap", "environment", "decode", "busy",
}  # fmt: skip
WORK = FLOOR | {"data", "model", "loading"}
ALLOWED = {
    **dict.fromkeys(FLOOR, FLOOR),
    "tokenizer": FLOOR | {"data"},
    "errors": set(),
    "data": FLOOR | {"data"},
    "model": FLOOR | {"model"},
    "loading": FLOOR | {"model", "shaping"},
    "shaping": FLOOR | {"model"},
    "conversion": WORK,
    "predict": WORK | {"abstain", "recall"},
    "recall": FLOOR | {"data"},
    "several_pieces": WORK,
    "spans": WORK | {"predict", "spans"},
    "quality": WORK | {"spans"},
    "train": WORK | {"predict", "spans", "quality", "score_files", "train"},
    "gate": WORK | {"predict", "spans", "quality", "several_pieces"},
    "bench": WORK | {"predict", "spans", "quality", "train", "bench"},
    "parts_of_speech": FLOOR | {"data"},
    "slices": FLOOR | {"data", "parts_of_speech"},
    "evaluation": FLOOR | {"data", "slices", "score_files"},
    "measured": FLOOR | {"data", "score_files"},
    "score_files": FLOOR | {"data"},
    "score_sets": FLOOR | {"data", "score_files"},
    "confidence": FLOOR,
    "abstain": FLOOR | {"data"},
    "temperature": FLOOR | {"calibration", "confidence", "score_files"},
    "calibration": FLOOR | {"data", "score_files", "score_sets", "confidence"},
    "ensemble": FLOOR | {"data", "score_files", "score_sets", "confidence"},
    "ensemble_report": FLOOR | {"confidence", "ensemble"},
    "ensemble_files": FLOOR | {"data", "score_files", "abstain", "ensemble", "ensemble_report"},
    "report": FLOOR
    | {"data", "slices", "evaluation", "score_files", "score_sets", "confidence", "report"},
    "export": WORK | {"predict", "spans", "quality", "temperature", "export"},
    "answering": WORK | {"predict", "temperature"},
    "vocabulary": FLOOR,
    "analysis": WORK,
    "plots": FLOOR,
    "curves": FLOOR | {"plots"},
    "checkup": FLOOR | {"data"},
    "importing": FLOOR | {"data", "importing"},
    "serve": WORK | {"predict", "temperature", "importing", "report", "serve"},
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            yield from names if node.module == "albert_rc" else [node.module]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_rooms_import_only_what_they_may(path):
    here = room(path.relative_to(PACKAGE).parts)
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "transformers":
            # It is what we measure ourselves against; everything else goes through loading.
            place = path.relative_to(PACKAGE).as_posix()
            measured = place in ("bench/peers.py", "export/others.py")
            assert here == "loading" or measured, f"{path.name}: only loading imports transformers"
        if top in ("starlette", "uvicorn"):
            assert here == "serve", f"{path.name}: only serve knows the web framework"
        if top == "albert_rc" and rest and here not in ("cli", "__init__", "__main__"):
            there = rest[0]
            if (PACKAGE / there).is_dir() or (PACKAGE / f"{there}.py").is_file():
                assert there in ALLOWED[here], f"{here} must not import {there}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_readable(path):
    assert len(path.read_text().splitlines()) <= 500


LIGHT = {
    "the command line": ("import albert_rc.cli.app", ["torch", "numpy"]),
    "the package, and a look at what it holds": (
        "import albert_rc; assert 'answer' in dir(albert_rc)",
        ["torch", "numpy", "orjson"],
    ),
    "the report": ("import albert_rc.report.page", ["torch"]),
    # torch takes longer to import than a thousand papers to encode, in every worker.
    "preprocessing": ("import albert_rc.data.prepare", ["torch", "numpy", "transformers"]),
    # A second and 70 MiB at the start of every command, for a compiler that nobody asked for.
    "loading a model": (
        "from albert_rc.loading import load_model; load_model('albert-rc-tiny', 'cloze')",
        ["torch._dynamo", "sympy", "transformers"],
    ),
    # The process that reads them starts with each request, and has little memory.
    "reading printed papers for serve": (
        "import albert_rc.serve.printed, albert_rc.importing.run",
        ["torch", "numpy", "starlette", "uvicorn"],
    ),
}


@pytest.mark.parametrize("name", LIGHT)
def test_nothing_heavy_is_imported(name):
    code, heavy = LIGHT[name]
    code += f"; import sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
