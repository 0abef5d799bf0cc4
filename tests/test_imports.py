"""The import rules of docs/architecture.md, read from the source."""

import ast
import subprocess
import sys

import pytest
from conftest import ROOT, SAMPLE

PACKAGE = ROOT / "albert_rc"
# What each folder may import, besides itself. From top to bottom: a later one knows earlier ones.
FILES = {"errors", "fields", "io"}
MACHINE = FILES | {"runtime"}
PAPERS = MACHINE | {"text", "papers"}
MODEL = MACHINE | {"batch", "model"}
DATA = PAPERS | {"batch", "stores"}
CHECKPOINTS = MODEL | {"text", "checkpoints"}
ANSWERS = DATA | CHECKPOINTS | {"scoring", "answering"}
ALLOWED = {
    "errors": set(),
    "fields": {"errors"},
    "batch": set(),
    "io": {"errors"},
    "runtime": FILES,
    "text": MACHINE,
    "papers": FILES,
    "printed": MACHINE | {"papers"},
    "stores": DATA,
    "corpus": DATA,
    "model": MODEL,
    "checkpoints": CHECKPOINTS,
    "scoring": FILES | {"papers"},
    "answering": ANSWERS,
    "training": ANSWERS | {"corpus"},
    "report": FILES | {"papers", "scoring"},
    "export": ANSWERS | {"report"},
    "serve": ANSWERS | {"printed", "report"},
    "bench": ANSWERS | {"corpus", "training"},
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            whole = node.module in ("albert_rc", "albert_rc.printed")
            yield from names if whole else [node.module]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_rooms_import_only_what_they_may(path):
    here = room(path.relative_to(PACKAGE).parts)
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "transformers":
            place = path.relative_to(PACKAGE).as_posix()
            # What we measure ourselves against, and what an exported folder is checked with.
            assert place in ("bench/peers.py", "export/others.py"), (
                f"{place}: only bench/peers.py and export/others.py import transformers"
            )
        if top in ("starlette", "uvicorn"):
            assert here == "serve", f"{path.name}: only serve knows the web framework"
        if top == "albert_rc" and rest and here not in ("cli", "__init__", "__main__"):
            there = rest[0]
            if (PACKAGE / there).is_dir() or (PACKAGE / f"{there}.py").is_file():
                assert there in ALLOWED[here] | {here}, f"{here} must not import {there}"


def test_folders_of_printed_are_no_circle():
    folder = PACKAGE / "printed"
    known = {}
    for path in sorted(folder.rglob("*.py")):
        here = room(path.relative_to(folder).parts)
        names = (name.split(".") for name in imports(path))
        known.setdefault(here, set()).update(
            name[2] for name in names if name[:2] == ["albert_rc", "printed"] and name[2:]
        )
    for through, reached in known.items():  # Warshall: what is known by way of others, too
        for there in known.values():
            if through in there:
                there.update(reached)
    folders = {name for name in known if (folder / name).is_dir()}
    circles = {
        (one, other)
        for one in folders
        for other in folders & known[one]
        if one < other and one in known[other]
    }
    assert not circles


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
    "preprocessing": ("import albert_rc.stores.preprocess", ["torch", "numpy", "transformers"]),
    "preprocessing, as a command": (
        "import os, sys, tempfile; from albert_rc.cli.app import main\n"
        "with tempfile.TemporaryDirectory() as out:\n"
        f"    sys.argv = ['albert-rc', 'preprocess', '{SAMPLE}/cloze', '--model', "
        f"'{SAMPLE}/vocabulary', '--out', out]\n"
        "    try: main()\n"
        "    except SystemExit as leaving: assert not leaving.code\n"
        "    assert os.path.isfile(os.path.join(out, 'train.pt'))",
        ["torch", "transformers", "pyarrow", "upath"],
    ),
    # A second and 70 MiB at the start of every command, for a compiler that nobody asked for.
    "loading a model": (
        "from albert_rc.checkpoints.load import load_model; load_model('albert-rc-tiny', 'cloze')",
        ["torch._dynamo", "sympy", "transformers"],
    ),
    # The process that reads them starts with each request, and has little memory.
    "reading printed papers for serve": (
        "import albert_rc.serve.printed, albert_rc.printed.run",
        ["torch", "numpy", "starlette", "uvicorn"],
    ),
}


@pytest.mark.parametrize("name", LIGHT)
def test_nothing_heavy_is_imported(name):
    code, heavy = LIGHT[name]
    code += f"\nimport sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
