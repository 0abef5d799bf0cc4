"""`serve`'s page in a browser, as a teacher uses it."""

import json
import re
import threading

import pytest
from browsing import check, until
from conftest import SAMPLE
from fabricated import HOSTILE

pytest.importorskip("starlette", reason="no starlette; pip install 'albert-rc[serve]'")
from serving import serving

from albert_rc.papers.formats import read_split
from albert_rc.scoring.evaluate import evaluate, read_answers
from albert_rc.serve.reading import paper_json

pytestmark = pytest.mark.slow

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
MIXED = """Section A
Read the text and fill the blanks.

Tom went to the __1__ to buy bread. He __2__ his money at home, so he walked back.

1. A. shop B. sea C. moon D. tree
2. A. left B. ate C. sang D. drew

Passage 1
The museum opens at nine on weekdays and at ten on Sundays. Children under six pay nothing.

3. When does the museum open on Sundays?
A. At eight. B. At nine. C. At ten. D. At noon.
4. Who pays nothing?
A. Teachers. B. Small children. C. Painters. D. Nobody.

Passage 2
Bees see colours that people cannot see. They find flowers by these colours, and by their smell.

5. How do bees find flowers?
A. By colour and smell. B. By sound. C. By touch. D. By chance.
7. What can bees see?
A. Nothing. B. More colours than people. C. Only red. D. The wind.

Key: 1-4 AACB 5 A 7 B
"""


@pytest.fixture(scope="module")
def served():
    with serving(body_bytes=300_000) as found:
        yield found


@pytest.fixture
def opened(browser, served):
    """Opens pages; at the end nothing may have gone wrong, nor left this server."""
    complaints, contexts = [], []

    def complain(message):
        # What the server refuses, the browser notes by itself.
        if not re.match(
            r"Failed to load resource: .*(status of (422|503) |ERR_CONNECTION_REFUSED)", message
        ):
            complaints.append(message)

    def open_page(path="/", **how):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | how))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complain(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith((served.address, "blob:")) or complain(r.url))
        page.goto(served.address + path)
        page.wait_for_selector("[data-ready]", state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def answer(page, text):
    page.fill("#text", text)
    page.click("#send")
    page.wait_for_selector("#papers:not([hidden]), #error:not([hidden])")
    until(page, "document.querySelector('#cancel').hidden")


def downloaded(page, text):
    with page.expect_download() as found:
        page.click(f"#downloads button:has-text('{text}')")
    return found.value.suggested_filename, found.value.path().read_bytes()


def test_a_file_is_answered_corrected_and_kept(opened, served, tmp_path):
    page = opened()
    path = sorted((SAMPLE / "cloze" / "dev").iterdir())[0]
    page.set_input_files("#file", path)
    assert page.inner_text("#chosen-name") == path.name
    assert not page.locator("#text").is_visible()
    page.click("#send")
    page.wait_for_selector("article .blank")
    expected = served.post(path.read_bytes(), name=path.name).json
    questions = expected["papers"][0]["questions"]
    options = expected["papers"][0]["paper"]["options"]
    chips = page.locator("article .blank")
    words = chips.locator(".word").all_inner_texts()
    assert words == [
        row["ABCD".index(question["answer"])]
        for row, question in zip(options, questions, strict=True)
    ]
    right = sum(question["answer"] == question["right"] for question in questions)
    assert f"{right} of {len(questions)} right" in page.inner_text("#count")
    assert page.locator("article .blank.wrong").count() == len(questions) - right
    unsure = sum(max(question["probabilities"]) < 0.5 for question in questions)
    assert page.locator("article .blank.unsure").count() == unsure
    name, content = downloaded(page, "answer.json")
    assert name == "answer.json"
    assert json.loads(content) == expected["answers"]["cloze"]

    wrong = next(i for i, q in enumerate(questions) if q["answer"] != q["right"])
    chips.nth(wrong).click()
    rows = page.locator("#details tbody tr")
    assert rows.count() == len(options[wrong])
    rows.nth("ABCD".index(questions[wrong]["right"])).locator("label").click()
    assert "corrected" in chips.nth(wrong).get_attribute("class")
    assert "1 corrected" in page.inner_text("#count")
    assert f"{right + 1} of" in page.inner_text("#count")
    page.keyboard.press("Escape")
    letters = [question["answer"] for question in questions]
    letters[wrong] = questions[wrong]["right"]
    (tmp_path / "answer.json").write_bytes(downloaded(page, "answer.json")[1])
    gold = read_split(path).passages
    measured = evaluate(read_answers(tmp_path / "answer.json", gold), gold)
    assert measured.total.correct == right + 1
    name, content = downloaded(page, "The paper as JSON")
    assert (name, json.loads(content)) == (f"{path.name}l", expected["papers"][0]["paper"])
    name, content = downloaded(page, "with these answers")
    assert name == path.name.replace(".json", "-key.jsonl")
    assert json.loads(content) == {**expected["papers"][0]["paper"], "answers": letters}
    (tmp_path / name).write_bytes(content)
    saved = read_split(tmp_path / name)
    assert not saved.errors
    # Both downloads fit together.
    given = read_answers(tmp_path / "answer.json", saved.passages)
    assert evaluate(given, saved.passages).total.correct == len(questions)

    chips.nth(wrong).click()
    page.click("#details [data-back]")
    assert "corrected" not in page.inner_text("#count")
    assert page.evaluate("document.activeElement.type") == "radio"


def test_a_printed_paper_of_two_kinds(opened):
    page = opened()
    answer(page, MIXED)
    assert page.locator("article").count() == 2
    refused = page.locator(".said.refused")
    assert "6 is missing" in refused.inner_text()
    assert "guesses" in page.inner_text(".said.warning")
    question = page.locator(".question").first
    assert question.locator("input").count() == 4
    chosen = question.locator("input:checked")
    assert chosen.count() == 1
    other = (int(chosen.get_attribute("value")) + 1) % 4
    question.locator("label").nth(other).click()
    assert "corrected" in question.get_attribute("class")
    content = downloaded(page, "answer-choice.json")[1]
    assert json.loads(content)["paper-2.txt#1"] == "ABCD"[other]
    assert list(json.loads(downloaded(page, "answer-cloze.json")[1])) == ["paper-1.json"]
    question.locator("[data-back]").click()
    assert "corrected" not in question.get_attribute("class")


def test_blanks_have_the_numbers_of_the_print(opened):
    page = opened()
    answer(page, MIXED.partition("Passage 1")[0].replace("1", "36").replace("2", "37"))
    assert page.locator("article .blank .no").all_inner_texts() == ["36", "37"]
    page.locator("article .blank").first.hover()
    page.wait_for_selector("#details:has-text('Blank 36')")
    check(page)


def test_the_example_and_the_threshold(opened):
    page = opened()
    page.click("#example")
    page.wait_for_selector("article .blank")
    page.fill("#below", "1")
    assert page.locator("article .unsure").count() == 0
    assert "none unsure" in page.inner_text("#count")
    page.fill("#below", "100")
    assert page.locator("article .unsure").count() == 5
    page.fill("#below", "1000")
    page.keyboard.press("Tab")
    assert page.input_value("#below") == "100"
    page.reload()
    page.wait_for_selector("[data-ready]", state="attached")
    assert page.input_value("#below") == "100"


def test_all_by_keyboard(opened):
    page = opened()
    page.focus("#text")
    page.keyboard.insert_text(MIXED)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("article .blank")
    page.fill("#below", "100")
    page.keyboard.press("Tab")
    chips = page.locator("article .blank")
    page.keyboard.press("j")
    assert page.locator("[data-number]:focus").get_attribute("data-number") == "0"
    assert page.locator("#details").is_visible()
    was = chips.nth(0).locator(".word").inner_text()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.type") == "radio"
    page.keyboard.press("ArrowDown")
    assert chips.nth(0).locator(".word").inner_text() != was
    page.keyboard.press("Escape")
    assert not page.locator("#details").is_visible()
    assert page.locator("[data-number]:focus").get_attribute("data-number") == "0"
    page.keyboard.press("j")
    page.keyboard.press("d")
    assert chips.nth(1).locator(".word").inner_text() == "drew"
    page.keyboard.press("a")
    assert chips.nth(1).locator(".word").inner_text() == "left"
    page.keyboard.press("j")
    assert page.locator(".question:focus").count() == 1
    assert not page.locator("#details").is_visible()
    page.keyboard.press("b")
    assert page.locator(".question").first.locator("input:checked").get_attribute("value") == "1"
    chips.nth(0).focus()
    for keys in (["Tab", "Tab"], ["Shift+Tab"]):  # out of the options, back to the blank
        page.keyboard.press("Enter")
        for key in keys:
            assert page.locator("#details :focus").count() == 1
            page.keyboard.press(key)
        assert page.locator(".blank:focus").count() == 1
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.uncheck("#keys")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert not page.locator("#help").is_visible()


def test_refusals_are_shown(opened, served, monkeypatch):
    page = opened()
    page.click("#send")
    assert "no paper yet" in page.inner_text("#error")
    answer(page, "A text with no questions.")
    assert "no paper" in page.inner_text("#error")
    assert not page.locator("#papers").is_visible()
    answer(page, '{"article": "no blank", "options": []}')
    assert "the article has no blanks" in page.inner_text("#error")
    answer(page, "x" * 300_001)
    assert "over this server" in page.inner_text("#error")
    page.fill("#text", MIXED)
    monkeypatch.setattr(served.engine.line, "_most", 0)
    page.click("#send")
    page.wait_for_selector("#error:has-text('busy')")
    monkeypatch.undo()
    page.route("**/api/answer?*", lambda route: route.abort("connectionrefused"))
    answer(page, MIXED)
    assert "Is it still running?" in page.inner_text("#error")


def test_how_far_the_answers_have_come(opened, served, monkeypatch):
    go = threading.Event()
    score = served.engine._answer

    def slowly(papers, loaded, end, stopped, place):
        place.answered(1)
        go.wait(20)
        return score(papers, loaded, end, stopped, place)

    monkeypatch.setattr(served.engine, "_answer", slowly)
    page = opened()
    page.fill("#text", MIXED.partition("Passage 1")[0])
    page.click("#send")
    page.wait_for_selector("#progress:has-text('Answering 2 questions')")
    assert page.locator("#progress-bar").get_attribute("max") == "2"
    assert page.evaluate("document.getElementById('progress-bar').value") == 1
    assert page.inner_text("#progress-count") == "1 of 2"
    check(page)
    behind = opened()
    behind.fill("#text", MIXED)
    behind.click("#send")
    behind.wait_for_selector("#progress:has-text('Waiting for 1 earlier paper ')")
    assert not behind.locator("#progress-bar").is_visible()
    go.set()
    for each in (page, behind):
        each.wait_for_selector("article .blank")
        assert not each.locator("#progress").is_visible()
        assert not each.locator("#progress-bar").is_visible()


def test_corrections_are_not_lost_in_silence(opened):
    page = opened()
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    answer(page, MIXED)
    page.locator(".question label").nth(0).click()
    page.locator(".question label").nth(1).click()
    page.click("#send")
    assert asked == ["confirm"]
    assert "corrected" in page.inner_text("#count")
    downloaded(page, "answer-choice.json")
    page.click("#send")
    until(page, "!document.querySelector('#count').textContent.includes('corrected')")
    assert asked == ["confirm"]


def test_papers_that_mean_harm_are_only_read(opened):
    page = opened()
    content = json.dumps({**paper_json(HOSTILE), "id": "__proto__"}, ensure_ascii=False)
    page.set_input_files(
        "#file",
        {"name": HOSTILE.id, "mimeType": "text/html", "buffer": content.encode()},
    )
    page.click("#send")
    page.wait_for_selector("article .blank")
    assert "<script>window.hacked=1</script>" in page.inner_text("article .passage")
    for number in range(3):
        page.locator("article .blank").nth(number).hover()
        page.wait_for_selector("#details:not([hidden])")
        page.mouse.move(1, 1)  # what is shown may lie on the next blank
        page.wait_for_selector("#details", state="hidden")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script, main svg, main style").count() == 0
    assert len(json.loads(downloaded(page, "answer.json")[1])) == 1
    assert re.fullmatch(r"[\w.-]+", downloaded(page, "The paper as JSON")[0])


def test_a_file_is_dropped(opened):
    page = opened()
    page.evaluate("""text => {
        const data = new DataTransfer();
        data.items.add(new File([text], "dropped.txt"));
        for (const name of ["dragover", "drop"]) {
            const how = { dataTransfer: data, bubbles: true, cancelable: true };
            document.body.dispatchEvent(new DragEvent(name, how));
        }
    }""", MIXED)  # fmt: skip
    assert page.inner_text("#chosen-name") == "dropped.txt"
    page.click("#send")
    page.wait_for_selector("h3:has-text('dropped-1.json')")
    page.click("#unchoose")
    assert page.locator("#text").is_visible()


def test_on_a_phone(opened):
    page = opened(**PHONE)
    page.tap("#example")
    page.wait_for_selector("article .blank")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("article .blank").first.tap()
    sheet = page.locator("#details.sheet")
    assert sheet.bounding_box()["width"] == 390
    page.locator("#details label").nth(3).tap()
    assert "1 corrected" in page.inner_text("#count")
    assert sheet.is_visible()
    page.locator("#details-close").tap()
    assert not sheet.is_visible()
    assert opened("/api", **PHONE).evaluate("document.documentElement.scrollWidth") <= 390


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Two pages of a paper as a phone takes them, one word of the first written over."""
    pytest.importorskip("rapidocr", reason="no rapidocr; pip install 'albert-rc[ocr]'")
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype("DejaVuSans.ttf", 34)
    text = MIXED.partition("Passage 1")[0].split("\n")
    folder = tmp_path_factory.mktemp("photographs")
    for number, lines in enumerate((text[:4], text[4:]), 1):
        page = Image.new("RGB", (1700, 420), "white")
        draw = ImageDraw.Draw(page)
        for at, line in enumerate(lines):
            draw.text((60, 40 + 60 * at), line, "black", font)
        if number == 1:
            left = 60 + font.getlength(lines[3].partition("walked")[0])
            draw.text((left + 6, 223), "Xmgkw", "black", font)  # written over `walked`
        page.rotate(1, fillcolor="white").save(folder / f"page{number}.jpg", quality=85)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("how", [{}, PHONE])
def test_photographs_of_a_paper_are_answered_and_what_is_unsure_shown(opened, photographs, how):
    page = opened(**how)
    page.set_input_files("#file", photographs)
    assert page.inner_text("#chosen-name") == "page1.jpg, page2.jpg"
    page.click("#send")
    page.wait_for_selector("article .blank", timeout=90_000)
    assert page.locator("article .blank").count() == 2
    unsure = page.locator(".said.check li")
    assert unsure.count() > 0
    assert unsure.locator("img").first.evaluate("image => image.naturalWidth") > 100
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    page.click("text=Correct the recognised text")
    read = page.input_value("#text")
    assert "Tom went to the __1__ to buy bread" in read
    answer(page, read.replace("moon", "lake"))
    assert page.locator(".said.check").count() == 0
    assert page.locator("article .blank").count() == 2


def test_the_api_can_be_tried(opened):
    page = opened("/api")
    page.click("#try button")
    page.wait_for_selector("#try-result:not([hidden])")
    assert json.loads(page.inner_text("#try-result"))["complete"]
    page.select_option("#try-type", "text/plain")
    page.click("#try button")
    until(page, "document.querySelector('#try-result').textContent.includes('paper-1.json')")
    assert page.inner_text("#try-status") == "200"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 800, 390])
def test_accessibility(opened, width, scheme):
    page = opened(viewport={"width": width, "height": 900}, color_scheme=scheme)
    check(page)
    answer(page, MIXED)
    page.locator(".said.left-out summary").click()
    check(page)
    page.locator("article .blank").first.click()
    page.locator("#details label").nth(3).click()
    page.locator("#details label").nth(2).click()
    page.locator(".question label").nth(0).click()
    page.locator(".question label").nth(1).click()
    check(page)
    page.locator("article .blank").first.click()
    check(page)
    page.click("#help-open")
    check(page)
    page.keyboard.press("Escape")
    api = opened("/api", viewport={"width": width, "height": 900}, color_scheme=scheme)
    api.click("#try button")
    api.wait_for_selector("#try-result:not([hidden])")
    check(api)
