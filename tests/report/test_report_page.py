"""The report in a browser, as a reader uses it."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import check, until
from conftest import SAMPLE
from fabricated import HOSTILE, fabricate, repeated

from albert_rc.papers.formats import read_split
from albert_rc.report.figures import figures_of
from albert_rc.report.page import render

pytestmark = pytest.mark.slow

SHOWN = "article:not([hidden])"


@pytest.fixture(scope="module")
def cloze():
    """Forty papers of both levels; the last of them means harm."""
    return [*repeated(read_split(SAMPLE / "cloze" / "dev").passages, 39), HOSTILE]


@pytest.fixture(scope="module")
def files(cloze, tmp_path_factory):
    """Pages by what is on them, with the runs that they show."""
    folder = tmp_path_factory.mktemp("pages")
    one, two = fabricate(cloze, 1, "one.jsonl"), fabricate(cloze, 2, "two.jsonl")
    choice = read_split(SAMPLE / "race" / "dev").passages
    blind = read_split(SAMPLE / "cloze" / "test").passages
    made = {
        "one": ("cloze", cloze, [one]),
        "two": ("cloze", cloze, [one, two]),
        "choice": ("choice", choice, [fabricate(choice, 1), fabricate(choice, 2)]),
        "blind": ("cloze", blind, [fabricate(blind)]),
    }
    paths = {}
    for name, (kind, papers, runs) in made.items():
        paths[name] = folder / f"{name}.html"
        paths[name].write_bytes(render(figures_of(kind, papers, runs), papers, name))
    return {"runs": [one, two], **paths}


@pytest.fixture
def opened(browser):
    """Opens pages; at the end nothing may have gone wrong, nor asked for the network."""
    complaints, contexts = [], []

    def open_page(path: Path, **how):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | how))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda r: r.url.startswith("file:") or complaints.append(r.url))
        page.goto(path.as_uri())
        page.wait_for_selector("[data-ready]", state="attached", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def counted(page):
    """Papers and questions that the page says it shows."""
    papers, questions = page.inner_text("#count").split(" · ")[:2]
    found = tuple(int(part.split()[0].replace(",", "")) for part in (papers, questions))
    assert page.locator(SHOWN).count() == found[0]
    return found


def wrong_of(papers, run):
    gold = [q.answer for p in papers for q in p.questions]
    return [a != g for a, g in zip(run.chosen, gold, strict=True)]


def test_filters_let_through_what_they_say(opened, files, cloze):
    page = opened(files["two"])
    one, two = files["runs"]
    wrong, also = wrong_of(cloze, one), wrong_of(cloze, two)
    assert counted(page) == (40, len(wrong))
    for field, value, expected in (
        ("answer", "wrong", wrong),
        ("answer", "right", [not w for w in wrong]),
        ("certainty", "unsure", [p < 0.5 for p in one.confidence]),
        ("change", "changed", [a != b for a, b in zip(one.chosen, two.chosen, strict=True)]),
        ("change", "gained", [b and not a for a, b in zip(wrong, also, strict=True)]),
        ("change", "lost", [a and not b for a, b in zip(wrong, also, strict=True)]),
        ("change", "both", [a and b for a, b in zip(wrong, also, strict=True)]),
    ):
        page.select_option(f"[name={field}]", value)
        assert counted(page)[1] == sum(expected), (field, value)
        page.click("#choices [data-set='']")
    high = [p.level == "high" for p in cloze for _ in p.questions]
    level = page.locator("label", has_text="Level").locator("select")
    level.select_option("high")
    assert counted(page) == (sum(p.level == "high" for p in cloze), sum(high))
    page.select_option("[name=answer]", "wrong")
    assert counted(page)[1] == sum(h and w for h, w in zip(high, wrong, strict=True))
    assert page.locator("article .blank.right:not(.dim)").count() < 20 * page.locator(SHOWN).count()
    # What was chosen is in the address, so that it can be kept.
    again = opened(Path(files["two"]))
    again.goto(page.url)
    again.reload()
    again.wait_for_selector("[data-ready]", state="attached")
    assert counted(again) == counted(page)


def test_filters_go_by_the_run_that_is_shown(opened, files, cloze):
    page = opened(files["two"])
    wrong = wrong_of(cloze, files["runs"][1])
    page.select_option("[name=view]", "1")
    page.select_option("[name=answer]", "wrong")
    assert counted(page)[1] == sum(wrong)
    assert page.locator("article .blank.right:not(.dim)").count() == 0
    page.click("#choices [data-set='']")
    page.select_option("[name=view]", "1")
    page.evaluate("document.querySelector('#papers').scrollIntoView()")
    for _ in range(5):
        page.keyboard.press("j")
        page.wait_for_timeout(60)
        assert "wrong" in page.locator("[data-number]:focus").get_attribute("class")


def test_what_has_no_probabilities_offers_nothing_by_them(opened, cloze, tmp_path):
    scored = fabricate(cloze, 1, "scored")
    letters = replace(fabricate(cloze, 2, "letters"), probabilities=None)
    path = tmp_path / "mixed.html"
    path.write_bytes(render(figures_of("cloze", cloze, [letters, scored]), cloze, "mixed"))
    page = opened(path)
    assert page.is_disabled("[name=certainty]")
    page.select_option("[name=view]", "1")
    page.select_option("[name=certainty]", "unsure")
    assert counted(page)[1] == sum(p < 0.5 for p in scored.confidence)


def test_addresses_keep_their_meaning(opened, files):
    page = opened(files["one"])
    page.evaluate("location.hash = 'level=high&answer=nonsense'")
    until(page, "document.querySelector('#count').textContent.startsWith('20 of')")
    assert page.input_value("[name=answer]") == ""
    kept = page.url
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "papers"
    assert "level=high" in page.url
    assert page.url.split("#")[0] == kept.split("#")[0]


def test_search_shows_what_it_found(opened, files, cloze):
    page = opened(files["one"])
    run = files["runs"][0]
    paper, question = cloze[0], cloze[0].questions[0]
    before = paper.segments()[0].split()[-2:]
    sought = "  ".join([*before, question.options[run.chosen[0]]]).upper()
    page.fill("[name=q]", sought)
    until(page, "!document.querySelector('#count').textContent.startsWith('40 of')")
    assert counted(page)[0] > 0
    assert page.locator("article .blank mark").count() > 0
    page.keyboard.press("Tab")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    page.wait_for_timeout(80)
    assert page.locator("article:focus mark").first.is_visible()
    # An option that nobody chose and that stands nowhere else.
    text = "javascript:hacked"
    page.fill("[name=q]", text)
    until(page, "document.querySelector('#count').textContent.startsWith('1 of')")


def test_search_goes_through_the_run_that_is_shown(opened, files, cloze):
    """What only the other run chose is found among the options, and that is said."""
    one, two = files["runs"]
    words = {o for p in cloze for q in p.questions for o in q.options if " " not in o}
    chosen = [
        {
            q.options[c]
            for q, c in zip((q for p in cloze for q in p.questions), run.chosen, strict=True)
        }
        for run in (one, two)
    ]
    right = {q.options[q.answer] for p in cloze for q in p.questions}
    text = " ".join(p.text for p in cloze).lower()
    word = min(
        w for w in words & chosen[1] - chosen[0] - right if len(w) > 4 and w.lower() not in text
    )
    page = opened(files["two"])
    page.select_option("[name=view]", "0")
    page.fill("[name=q]", word)
    until(page, "!document.querySelector('#count').textContent.startsWith('40 of')")
    about = page.locator("article:not([hidden]) header p").all_inner_texts()
    assert about
    assert all("found among the options of blank" in said or word in said for said in about)
    page.select_option("[name=view]", "1")
    assert page.locator("article .blank mark").count() > 0


def test_a_pointer_does_not_move_the_page(opened, files):
    page = opened(files["one"], viewport={"width": 600, "height": 500})
    page.evaluate("document.querySelector('#papers').scrollIntoView()")
    page.wait_for_timeout(300)  # until the papers near the window are drawn
    chip = page.locator("article .blank").nth(4)
    # At the bottom of the window, where the sheet will be.
    chip.evaluate("chip => chip.scrollIntoView({ block: 'end' })")
    page.wait_for_timeout(300)
    before = page.evaluate("scrollY")
    place = chip.evaluate("chip => chip.getClientRects()[0].toJSON()")
    page.mouse.move(place["x"] + 8, place["y"] + place["height"] / 2)
    page.wait_for_selector("#details.sheet:not([hidden])")
    page.wait_for_timeout(100)
    assert page.evaluate("scrollY") == before


@pytest.mark.parametrize(("width", "height"), [(640, 450), (360, 740)])
def test_the_focus_is_never_hidden(opened, files, width, height):
    page = opened(files["one"], viewport={"width": width, "height": height})
    page.locator("#list").scroll_into_view_if_needed()
    page.locator("article .blank").first.focus()
    covered = """() => {
        const own = document.activeElement.getClientRects()[0];
        const at = document.elementFromPoint(own.left + own.width / 2, own.top + own.height / 2);
        return !(at && document.activeElement.contains(at));
    }"""
    for key in ["Tab"] * 25 + ["Shift+Tab"] * 20:
        page.keyboard.press(key)
        page.wait_for_timeout(30)
        if page.evaluate("document.activeElement.matches('.blank')"):
            until(page, f"!({covered})()")  # the page scrolls a little later on a busy machine


def test_a_long_name_fits_a_phone(opened, cloze, tmp_path):
    runs = [fabricate(cloze, 1, "a_name_without_end_" * 3), fabricate(cloze, 2, "short")]
    path = tmp_path / "long.html"
    path.write_bytes(render(figures_of("cloze", cloze, runs), cloze, "long"))
    page = opened(path, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_search_and_order(opened, files, cloze):
    page = opened(files["one"])
    word = cloze[0].text.split()[1]
    page.fill("[name=q]", word.upper())
    until(page, "!document.querySelector('#count').textContent.startsWith('40 of')")
    options = [" ".join([p.text, *(o for q in p.questions for o in q.options)]) for p in cloze]
    expected = sum(word.lower() in text.lower() for text in options)
    assert counted(page)[0] >= expected > 0
    assert page.locator("mark").count() > 0
    page.fill("[name=q]", "no such words anywhere")
    page.wait_for_selector("#nothing:not([hidden])")
    page.click("#nothing [data-set]")
    assert counted(page)[0] == 40
    page.select_option("[name=order]", "loss")
    about = page.locator("article header p").all_inner_texts()[:3]
    losses = [float(re.search(r"loss ([0-9.]+)", text)[1]) for text in about]
    assert losses == sorted(losses, reverse=True)
    page.locator("#slices .link").first.click()
    assert 0 < counted(page)[0] < 40


def test_keys_walk_from_mistake_to_mistake(opened, files, cloze):
    page = opened(files["one"])
    wrong = wrong_of(cloze, files["runs"][0])
    places = [(p.id, n) for p in cloze for n in range(len(p.questions))]
    mistakes = [place for place, is_wrong in zip(places, wrong, strict=True) if is_wrong]

    def here():
        page.wait_for_timeout(60)
        chip = page.locator("[data-number]:focus")
        paper = page.locator("article:has(:focus) h3").text_content()
        return paper, int(chip.get_attribute("data-number"))

    page.evaluate("document.querySelector('#papers').scrollIntoView()")
    for place in mistakes[:12]:
        page.keyboard.press("j")
        assert here() == place
    assert page.locator("#details").is_visible()
    rows = page.locator("#details tbody tr")
    paper = next(p for p in cloze if p.id == mistakes[11][0])
    assert rows.count() == len(paper.questions[mistakes[11][1]].options)
    assert "%" in rows.first.inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("#details").is_visible()
    page.keyboard.press("k")
    assert here() == mistakes[10]
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("jk")
    assert page.input_value("[name=q]") == "jk"


def test_options_on_hover_focus_and_tap(opened, files):
    page = opened(files["two"])
    chips = page.locator("article .blank.wrong")
    chips.first.hover()
    page.wait_for_selector("#details:not([hidden])")
    page.mouse.move(5, 5)
    page.wait_for_selector("#details", state="hidden")
    chips.nth(1).click()
    page.mouse.move(5, 5)
    page.wait_for_timeout(400)
    assert page.locator("#details").is_visible()
    assert chips.nth(1).get_attribute("aria-expanded") == "true"
    phone = opened(
        files["two"], viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    phone.locator("article").first.scroll_into_view_if_needed()
    phone.locator("article .blank.wrong").first.tap()
    sheet = phone.locator("#details.sheet")
    assert sheet.bounding_box()["width"] == 390
    phone.locator("#details-close").tap()
    assert not sheet.is_visible()


def test_papers_that_mean_harm_are_only_read(opened, files):
    page = opened(files["two"])
    page.fill("[name=q]", "window.hacked")
    until(page, "document.querySelector('#count').textContent.startsWith('1 of')")
    text = page.locator(f"{SHOWN} .passage").first
    assert "<script>window.hacked=1</script>" in text.inner_text()
    assert page.evaluate("window.hacked") is None
    assert page.locator("article img, article script, article svg, article style").count() == 0
    assert HOSTILE.id in page.locator(f"{SHOWN} h3").text_content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "width"),
    [("one", 1280), ("two", 1280), ("two", 390), ("choice", 1280), ("choice", 390), ("blind", 800)],
)
def test_accessibility(opened, files, name, width, scheme):
    page = opened(files[name], viewport={"width": width, "height": 900}, color_scheme=scheme)
    check(page)
    if width < 1000:
        page.click("#more")
    if name != "blind":
        page.select_option("[name=answer]", "wrong")  # what does not match is dimmed
    if name != "choice":
        page.locator("article .blank").first.click()
    check(page)
    page.click("#help-open")
    check(page)


def test_the_theme_is_kept(opened, files):
    page = opened(files["blind"], color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    page.wait_for_selector("[data-ready]", state="attached")
    assert page.evaluate(ground) == dark
    assert opened(files["blind"], color_scheme="dark").evaluate(ground) == dark


def test_all_is_printed(opened, files):
    page = opened(files["one"])
    drawn = "document.querySelectorAll('article h3').length"
    assert page.evaluate(drawn) < 40
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate(drawn) == 40
    assert not page.locator(".bar").is_visible()
    assert page.inner_text("#printed").startswith("40 of 40 papers")
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    until(page, f"{drawn} < 40")


def test_five_thousand_papers_scroll(opened, tmp_path):
    papers = repeated(read_split(SAMPLE / "cloze" / "dev").passages, 5000)
    path = tmp_path / "many.html"
    path.write_bytes(render(figures_of("cloze", papers, [fabricate(papers)]), papers, "many"))
    began = time.perf_counter()
    page = opened(path)
    assert time.perf_counter() - began < 15
    drawn = "document.querySelectorAll('article h3').length"
    assert page.evaluate(drawn) < 60
    slowest = page.evaluate("""async () => {
        let last = performance.now(), slowest = 0;
        for (let step = 0; step < 120; step++) {
            scrollBy(0, 900);
            await new Promise(requestAnimationFrame);
            slowest = Math.max(slowest, performance.now() - last);
            last = performance.now();
        }
        return slowest;
    }""")
    assert slowest < 500
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    until(page, "[...document.querySelectorAll('article')].at(-1).childElementCount > 0")
    assert page.evaluate(drawn) < 60
    began = time.perf_counter()
    page.select_option("[name=answer]", "wrong")
    assert time.perf_counter() - began < 5
    counted(page)
