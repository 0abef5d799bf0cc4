"""Scripts that no test runs still fit the package."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*ROOT.glob("experiments/*/*.py"), *ROOT.glob("benchmarks/*.py")])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_script_imports_is_there(script):
    for node in ast.walk(ast.parse(script.read_text())):
        if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("albert_rc"):
            continue
        module = import_module(node.module)
        for name in node.names:
            # A name may be a module of the package too.
            found = hasattr(module, name.name) or import_module(f"{node.module}.{name.name}")
            assert found, f"{node.module} has no {name.name}"
