"""The documentation: its commands exist, its links lead somewhere, and the site needs nobody.

tests/docs/test_docs_commands.py runs what it shows.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import documented
import pytest
from conftest import ROOT
from documented import PAGES, Shown


def test_every_command_could_be_given():
    commands = documented.shown()
    assert len(commands) > 130
    wrong = [
        f"{one} ({documented.complaint(one)})" for one in commands if documented.complaint(one)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("albert-rc train --learning-rat 1", "No such option"),
        ("albert-rc evaluate answers.json", "Missing argument"),
        ("albert-rc train --epochs many", "valid integer"),
        ("albert-rc trane", "no command"),
        ("albert-rc inspect colours", "no command"),
        ("torchrun -m albert_rc train --optimizer-state 8bit ...", "No such option"),
        ("make tests", "the Makefile has no"),
        ('pip install "albert-rc[imports]"', "no extra"),
        ("python -m experiments.tables.collapse --minutes 3", "knows no --minutes"),
        ("python -m experiments.tables.none", "is not there"),
        ("python benchmarks/none.py", "is not there"),
        ("pytest tests/test_none.py", "is not there"),
    ],
)
def test_wrong_commands_would_be_found(text, said):
    assert said in documented.complaint(Shown("page.md", text, True))


@pytest.mark.parametrize("name", ["albert-rc-small", "albert-rc-small-choice"])
def test_pages_have_the_figures_of_the_cards(name):
    figures = json.loads((ROOT / "experiments" / "results" / "reader.json").read_text())[name]
    share, low, high = (figures[of] for of in ("accuracy", "low", "high"))
    card = (ROOT / "albert_rc" / "pretrained" / name / "README.md").read_text()
    assert f"**{share:.2%}** [{low:.2%}, {high:.2%}]" in card
    for page in ("README.md", "docs/results.md"):
        assert f"{share:.1%} [{low:.1%}, {high:.1%}]" in (ROOT / page).read_text(), page
    for page in ("docs/quickstart.md", "CHANGELOG.md"):
        assert f"{share:.1%}" in (ROOT / page).read_text(), page


def test_every_option_that_is_named_exists():
    everywhere = documented.options_of(documented.program()) | {"--help"}
    for script in (ROOT / "experiments").glob("*/*.py"):
        everywhere |= documented.script_options(script)
    found = 0
    for page, span, name, options in documented.loose_options():
        command = documented.program().commands.get(name)
        known = documented.options_of(command) if command else everywhere
        missing = [option for option in options if option not in known]
        assert not missing, f"{page}: `{span}` names {missing}"
        found += 1
    assert found > 100


def test_the_examples_of_help_could_be_given():
    def examples(command):
        for one in getattr(command, "commands", {}).values():
            yield from examples(one)
        yield from re.findall(r"Example: `([^`]+)`", command.help or "")

    found = list(examples(documented.program()))
    assert len(found) >= 16
    for text in found:
        assert documented.complaint(Shown("help", text, True)) is None, text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link, path, anchor in documented.targets(page):
        assert path.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in documented.anchors(path), f"{page.name}: {link}"
        if page.parent.name == "docs":
            assert path.resolve().is_relative_to(ROOT / "docs"), f"{page.name}: {link} leaves docs"


def test_every_page_is_in_the_sites_menu():
    menu = set(re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert menu == {page.name for page in PAGES if page.parent.name == "docs"}


@pytest.fixture
def installed(tmp_path):
    """A home of its own, and albert-rc by its name, as completion needs it."""
    script = tmp_path / "bin" / "albert-rc"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom albert_rc.cli.app import main\nmain()\n")
    script.chmod(0o755)
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{script.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }


def shell(command, env, program="bash"):
    done = subprocess.run(
        [program, "-c", command], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_completion_is_installed_and_completes(installed, tmp_path):
    assert "installed" in shell("albert-rc --install-completion; true", installed)
    assert ".bash_completions/albert-rc.sh" in (tmp_path / ".bashrc").read_text()
    completed = shell(
        '. "$HOME/.bash_completions/albert-rc.sh"; COMP_WORDS=(albert-rc pre); COMP_CWORD=1; '
        '_albert_rc_completion albert-rc; echo "${COMPREPLY[@]}"',
        installed,
    )
    assert set(completed.split()) == {"predict", "preprocess", "pretrain"}


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("fish", "complete -C 'albert-rc pre'"),
        # What zsh would offer is what the completion gives to _arguments.
        (
            "zsh",
            "autoload -Uz compinit; compinit -u; . ~/.zfunc/_albert-rc; "
            "_arguments() { print -rl -- $@; }; "
            "words=(albert-rc pre); CURRENT=2; _albert_rc_completion",
        ),
    ],
)
def test_completion_in_other_shells(installed, name, asked):
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} here")
    assert "installed" in shell("albert-rc --install-completion; true", installed, name)
    offered = shell(asked, installed, name)
    for command in ("predict", "preprocess", "pretrain"):
        assert command in offered
    assert "evaluate" not in offered


@pytest.mark.parametrize(
    ("name", "said"), [("zsh", "#compdef albert-rc"), ("pwsh", "Register-ArgumentCompleter")]
)
def test_completion_is_shown_for_other_shells(installed, name, said):
    env = installed | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert said in shell(f"albert-rc --show-completion {name}", env)


class Loads(HTMLParser):
    """What a browser would fetch for a page by itself."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        rel = given.get("rel", "")
        if tag == "link" and rel.split() and rel not in ("canonical", "next", "prev"):
            self.found.append(given.get("href", ""))
        elif tag in ("script", "img", "iframe", "source", "video", "audio", "embed", "object"):
            self.found += [given[key] for key in ("src", "data", "poster") if given.get(key)]
            self.found += [part.split()[0] for part in given.get("srcset", "").split(",") if part]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built without a network where the system lets us take it away."""
    pytest.importorskip("zensical")
    pytest.importorskip("mkdocstrings_handlers.python")
    out = tmp_path_factory.mktemp("site")
    # Paths of the settings are those of their file, and nothing may lie elsewhere: a copy.
    for name in ("docs", "albert_rc"):
        beside = shutil.ignore_patterns("__pycache__", "pretrained")
        shutil.copytree(ROOT / name, out / name, ignore=beside)
    shutil.copy(ROOT / "mkdocs.yml", out)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    alone = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0:
        command = alone + command
    done = subprocess.run(
        command, cwd=out, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "build" / "site"


@pytest.mark.slow
def test_the_site_is_whole(site):
    names = {page.stem for page in PAGES if page.parent.name == "docs"}
    assert names <= {page.stem for page in site.glob("*.html")}
    api = (site / "api.html").read_text()
    # The docstring of a public field, as it stands in the source.
    source = (ROOT / "albert_rc" / "answering" / "api.py").read_text()
    (of_field,) = re.findall(r'^    number: int\n    """(.+)"""$', source, re.MULTILINE)
    for said in ("AnsweredPaper", of_field, "Raises:", "LoadReport"):
        assert said in api


@pytest.mark.slow
def test_no_page_asks_for_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text())
        assert loads.found
        for link in loads.found:
            assert not re.match(r"(https?:)?//", link), f"{page.name}: {link}"
    for sheet in site.rglob("*.css"):
        text = sheet.read_text()
        assert not re.search(r"url\(\s*['\"]?(https?:)?//|@import", text), sheet.name


@pytest.mark.slow
def test_the_site_in_a_browser(site, browser):
    """Opened from its folder: nothing is asked of a network, and the search finds."""
    page = browser.new_page()
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for name in sorted(site.glob("*.html")):
        page.goto(name.as_uri())
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("/")
    page.wait_for_timeout(1000)
    page.keyboard.type("checkpointing", delay=60)
    page.get_by_text("Troubleshooting").last.wait_for(timeout=10_000)
    page.close()
    assert not wrong
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked), asked
