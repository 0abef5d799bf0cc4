"""Building blocks of the pages of `report` and `serve`: style, scripts, their hashes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

REPORT = "albert_rc.report"


def read_part(name: str, package: str = REPORT) -> str:
    """A file of a package's templates."""
    return (files(package) / "templates" / name).read_text(encoding="utf-8")


def environment(package: str) -> Environment:
    """Jinja environment for a package's templates, with escaping and strict undefined names."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def script_of(parts: Iterable[str]) -> str:
    """Scripts wrapped in one function, without global names."""
    body = "\n".join(parts)
    return f'(() => {{\n"use strict";\n{body}}})();\n'


def source_hash(text: str) -> str:
    """Hash of a script or style for a Content Security Policy (CSP 3, section 2.3.1)."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
