"""What must hold of papers that were read, told without the code that reads them."""

from __future__ import annotations

import json
import re
from itertools import pairwise

from albert_rc.stores.encode import encode_choice, encode_cloze, question_with_option

WAYS_OUT = re.compile(
    r"fix|add|write|give|keep|save|put|must|need|at most|take|check|rename|is not one of|leave|"
    r"count"
)


def check_problems(problems, places):
    """Every problem names a file of ours, says something short in one line, and the way out."""
    for problem in problems:
        said = str(problem)
        assert problem.file.startswith(places), said
        assert said.isprintable(), ascii(said)
        assert len(said) < 700, said
        if problem.severity == "error":
            assert WAYS_OUT.search(problem.message), said


def check_read(kind, passage, content):
    """A passage holds what its file says: every question, every option, in their order."""
    raw = json.loads(content.decode("utf-8-sig"))
    answers = raw.get("answers") or [None] * len(raw["options"])
    assert passage.text == raw["article"]
    asked = raw["article"].count("_") if kind == "cloze" else len(raw["questions"])
    assert len(passage.questions) == asked == len(raw["options"]) == len(answers)
    if kind == "cloze":
        assert len(passage.blanks) == asked
        assert all(passage.text[a:b] == "_" for a, b in passage.blanks)
        assert all(one[1] <= two[0] for one, two in pairwise(passage.blanks))
    else:
        assert [question.text for question in passage.questions] == raw["questions"]
    for question, options, answer in zip(passage.questions, raw["options"], answers, strict=True):
        assert question.options == tuple(option.strip() for option in options)
        if answer is None:
            assert question.answer is None
        else:
            assert question.options[question.answer] == options[ord(answer.strip()) - 65].strip()


def spelt(tokenizer, text, ids):
    """Whether the ids are the text again, as far as the vocabulary can spell it."""
    if tokenizer.unk_id in ids:
        return None
    cleaned = tokenizer._word_start.normalize(tokenizer.normalize(text))
    return "".join(tokenizer.pieces(ids)) == cleaned


def check_cloze(passages, tokenizer, max_length):
    """Every blank is encoded exactly once, where it stands; options decode to themselves.

    Returns:
        how many options could be spelt and were compared.
    """
    encoded = encode_cloze(passages, tokenizer, max_length)
    assert len(encoded.answers) == len(encoded.option_pieces)
    windows = list(
        zip(encoded.window_passage, encoded.window_tokens, encoded.window_blanks, strict=True)
    )
    assert encoded.window_passage == sorted(encoded.window_passage)
    options = iter(encoded.option_pieces)
    answers = iter(encoded.answers)
    segments = [segment for passage in passages for segment in passage.text.split("_")]
    apart = tokenizer.encode(segments)
    joined = tokenizer.encode([segment.lstrip() for segment in segments], glued=True)
    at, compared = 0, 0
    for number, passage in enumerate(passages):
        count = len(passage.questions)
        own = [(tokens, blanks) for owner, tokens, blanks in windows if owner == number]
        # What stands between the blanks, with or without a word start in front of it.
        between = [(tuple(apart[at + i]), tuple(joined[at + i])) for i in range(count + 1)]
        at += count + 1
        if not encoded.long[number]:
            assert len(own) == 1
            check_whole(own[0][0], between, tokenizer)
        seen = 0
        for tokens, blanks in own:
            assert len(tokens) <= max_length
            assert (tokens[0], tokens[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
            inside = tokens[1:-1]
            assert tokenizer.cls_id not in inside
            assert tokenizer.sep_id not in inside
            assert blanks == sorted(set(blanks))
            for place in blanks:
                assert tokens[place] == tokenizer.mask_id
                # As much of what follows as the window holds.
                after = tokens[place + 1 : -1]
                after = (
                    after[: after.index(tokenizer.mask_id)] if tokenizer.mask_id in after else after
                )
                whole = place + 1 + len(after) < len(tokens) - 1
                begins = [way[: len(after)] for way in between[seen + 1]]
                assert tuple(after) in (between[seen + 1] if whole else begins)
                seen += 1
        assert seen == count, "a blank is missing, or stands twice"
        for question in passage.questions:
            assert next(answers) == (-1 if question.answer is None else question.answer)
            for option, ids in zip(question.options, next(options), strict=True):
                found = spelt(tokenizer, option, ids)
                assert found is not False, (option, ids)
                compared += found is not None
    assert next(options, None) is None
    return compared


def check_whole(tokens, between, tokenizer):
    """A paper in one window: its segments in order, with one [MASK] in place of each blank."""
    parts: list[list[int]] = [[]]
    for token in tokens[1:-1]:
        if token == tokenizer.mask_id:
            parts.append([])
        else:
            parts[-1].append(token)
    assert tuple(parts[0]) == between[0][0]
    assert all(tuple(part) in ways for part, ways in zip(parts, between, strict=True))


def check_choice(passages, tokenizer, max_length):
    """Every question is encoded once with each of its options, which are whole."""
    encoded = encode_choice(passages, tokenizer, max_length)
    numbers = [n for n, passage in enumerate(passages) for _ in passage.questions]
    assert encoded.question_passage == numbers
    asked = [question for passage in passages for question in passage.questions]
    reads = zip(encoded.question_start, encoded.question_kept, strict=True)
    kept = zip(asked, reads, encoded.tails, encoded.answers, strict=True)
    compared = 0
    for number, (question, (start, room), tails, answer) in zip(numbers, kept, strict=True):
        assert answer == (-1 if question.answer is None else question.answer)
        specials = 2 + tokenizer.separators_in_pair
        assert 0 <= start <= start + room <= len(encoded.passage_tokens[number])
        assert room + max(map(len, tails)) + specials <= max_length
        for option, ids in zip(question.options, tails, strict=True):
            found = spelt(tokenizer, question_with_option(question.text, option), ids)
            assert found is not False, (question.text, option, ids)
            compared += found is not None
    return compared
