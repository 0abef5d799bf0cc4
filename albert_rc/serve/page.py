"""The two pages: one for answering papers, one that describes the API. Both work offline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from albert_rc import __version__
from albert_rc.io.json import to_json
from albert_rc.report.parts import environment, read_part, script_of, source_hash
from albert_rc.serve.limits import MEGABYTE, Limits

PACKAGE = "albert_rc.serve"
SHARED = ("helpers", "theme")
PAPER_SCRIPTS = ("papers", "options", "corrections", "downloads", "progress", "ask", "keys")
ICON = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" '
    b'rx="3" fill="#1f5aa6"/><path d="M3 11.5h10" stroke="#fff" stroke-width="1.6"/>'
    b'<path d="M5 6.2l2.2 2.2L11.4 4" fill="none" stroke="#fff" stroke-width="1.6"/></svg>'
)


@dataclass(frozen=True)
class Page:
    """A page and its Content Security Policy."""

    content: bytes
    policy: str


def paper_page(model: str, limits: Limits) -> Page:
    """The page for pasting papers and correcting their answers."""
    own = [read_part(f"{name}.js", PACKAGE) for name in PAPER_SCRIPTS]
    shared = [read_part(f"{name}.js") for name in (*SHARED, "details")]
    return _page(
        "serve.html.j2",
        script_of([*shared, *own]),
        model=model,
        most_bytes=limits.body_bytes,
        most_megabytes=f"{limits.body_bytes / MEGABYTE:g}",
        example=read_part("example.txt", PACKAGE),
    )


def api_page(document: dict[str, Any], model: str) -> Page:
    """The page that shows an OpenAPI document, with a form to try the API."""
    shared = [read_part(f"{name}.js") for name in SHARED]
    return _page(
        "api.html.j2",
        script_of([*shared, read_part("api.js", PACKAGE)]),
        model=model,
        document=document,
        schemas=document["components"]["schemas"],
        pretty=_pretty,
        type_of=_type_of,
    )


def _page(template: str, script: str, **values: Any) -> Page:
    style = read_part("style.css") + read_part("serve.css", PACKAGE)
    templates = environment(PACKAGE)
    templates.filters["code"] = _code
    content = templates.get_template(template).render(
        style=Markup(style), script=Markup(script), version=__version__, **values
    )
    policy = (
        "default-src 'none'",
        f"script-src {source_hash(script)}",
        f"style-src {source_hash(style)}",
        "img-src 'self' data:",  # lines of pictures
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
    return Page(content.encode(), "; ".join(policy))


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode().rstrip()


def _code(text: str) -> Markup:
    """Text as HTML, with parts in backticks as code."""
    parts = (
        Markup("<code>{}</code>" if i % 2 else "{}").format(part)
        for i, part in enumerate(text.split("`"))
    )
    return Markup("").join(parts)


def _type_of(schema: dict[str, Any]) -> str:
    """A schema in words: `list of text`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema or "const" in schema:
        return " | ".join(schema.get("enum", [schema.get("const")]))
    if schema.get("format") == "binary":
        return "a file"
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type_of(schema['items'])}"
    if kind == "object" and "additionalProperties" in schema:
        return f"object of {_type_of(schema['additionalProperties'])}"
    names = {"string": "text", "boolean": "true or false"}
    return " or ".join(names.get(k, k) for k in ([kind] if isinstance(kind, str) else kind))
