"""The commands that pages and model cards show, and whether each could be given as it stands."""

import ast
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import typer
from conftest import ROOT

# Of click, or of typer's own copy of it.
SAID = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
CARDS = (ROOT / "albert_rc/pretrained").glob("*/README.md")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(CARDS),
]
PROGRAMS = ("albert-rc", "python", "torchrun", "make", "pytest", "pip", "bash")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Shown:
    """A command, and where it is shown."""

    page: str
    text: str
    whole: bool
    """In a block of its own; in running text it may be a mention, such as `albert-rc import`."""

    def __str__(self):
        return f"{self.page}: {self.text}"


def blocks(page):
    """Lines of the fenced blocks of commands; what a backslash continues is one line."""
    for language, block in FENCE.findall(page.read_text()):
        if language in ("", "bash", "sh"):
            yield from (line.strip() for line in block.replace("\\\n", " ").splitlines())


def spans(page):
    """What stands between backquotes in running text and tables."""
    return SPAN.findall(FENCE.sub("", page.read_text()))


def shown(pages=PAGES):
    """Every command, in the order of the pages."""
    found = []
    for page in pages:
        name = page.relative_to(ROOT).as_posix()
        for line in blocks(page):
            found += [Shown(name, part, True) for part in line.split(" && ")]
        found += [Shown(name, span, False) for span in spans(page)]
    return [one for one in found if one.text.partition(" ")[0] in PROGRAMS]


def words(text):
    """A line as a shell would take it, but for what `...` or a comment leave out."""
    return shlex.split(text.partition(" ...")[0], comments=True)


@cache
def program():
    """albert-rc as click sees it."""
    from albert_rc.cli.app import app

    return typer.main.get_command(app)


def complaint(one):
    """What is wrong with a command, or None."""
    first, *rest = words(one.text)
    if first == "torchrun":
        return of_program(rest[rest.index("albert_rc") + 1 :], False)
    if first == "albert-rc":
        return of_program(rest, one.whole and "..." not in one.text)
    if first == "make":
        return of_make(rest)
    if first == "pip":
        return of_pip(rest)
    if first in ("python", "bash", "pytest"):
        script, *more = [word for word in rest if word not in ("-m", "slow")] or [""]
        if script.startswith("experiments."):
            script = script.replace(".", "/") + ".py"
        return of_script([script, *more])
    return None


def of_program(rest, whole):
    """Parse a command line of albert-rc without running it."""
    command = program()
    while rest and hasattr(command, "commands") and not rest[0].startswith("-"):
        name, *rest = rest
        if name not in command.commands:
            return f"there is no command {name}"
        command = command.commands[name]
    try:
        if whole:
            command.make_context(command.name, list(rest))
        else:
            context = command.context_class(command, **command.context_settings)
            command.make_parser(context).parse_args(list(rest))
    except typer.Exit:  # --help and the like
        return None
    except SAID as error:
        return error.format_message()
    return None


def of_make(rest):
    """Targets of the Makefile."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    missing = [word for word in rest if word not in targets]
    return f"the Makefile has no {missing[0]}" if missing else None


def of_pip(rest):
    """The extras that it names."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for word in rest:
        for names in re.findall(r"(?:albert-rc|^\.)\[([\w,]+)\]", word):
            for name in names.split(","):
                if name not in extras["optional-dependencies"]:
                    return f"there is no extra {name}"
    return None


def of_script(rest):
    """A script that is there, and options that its source declares; it is not imported."""
    if "/" not in rest[0]:
        return None  # python -m venv, or a bare mention
    path = ROOT / rest[0].partition("::")[0]
    if not path.exists():
        return f"{rest[0]} is not there"
    if path.suffix != ".py":
        return None
    named = {word.partition("=")[0] for word in rest[1:] if word.startswith("--")}
    missing = sorted(named - script_options(path) - {"--help"})
    return f"{rest[0]} knows no {missing[0]}" if missing else None


def script_options(path):
    """Options in a script's source, and in that of the scripts that it imports from."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    texts = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    found = {text for text in texts if text.startswith("--")}
    for node in nodes:
        name = str(node.module) if isinstance(node, ast.ImportFrom) else ""
        if name.startswith("experiments."):
            found |= script_options(ROOT / f"{name.replace('.', '/')}.py")
    return found


def loose_options():
    """Spans that begin with an option, or with a command of albert-rc and an option behind it."""
    names = program().commands
    for page in PAGES:
        for span in spans(page):
            found = span.split()
            if not found or not re.fullmatch(r"--[a-z][a-z-]+|[a-z-]+", found[0]):
                continue
            options = [word for word in found if re.fullmatch(r"--[a-z][a-z0-9-]+", word)]
            name = found[0] if found[0] in names else None
            if options and (name or found[0].startswith("--")):
                yield page.relative_to(ROOT).as_posix(), span, name, options


def options_of(command):
    """All options of a command, and of the commands below it."""
    below = getattr(command, "commands", {}).values()
    own = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    return own.union(*(options_of(one) for one in below))


def targets(page):
    """Files and headings that a page links to, (path, anchor)."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))
    for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text):
        link = target[0] or target[1]
        if "://" not in link:
            path, _, anchor = link.partition("#")
            yield link, (page.parent / path if path else page), anchor


def anchors(page: Path):
    """A page's headings as a code host and the site both name them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}
