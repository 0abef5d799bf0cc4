"""The excerpt of a long passage that is read with a question."""

import math
import random

import pytest

from albert_rc.stores.excerpt import excerpt_start

FILLER = "It was a fine day and they went on . "


def encoded(tokenizer, *texts):
    return [tokenizer.encode([text])[0] for text in texts]


def test_it_begins_at_the_sentences_that_the_question_is_about(tokenizer):
    text = 30 * FILLER + "The farmer sold the brown horse to a teacher . " + 30 * FILLER
    passage, *tails = encoded(
        tokenizer, text, "Who sold the horse ? the farmer", "Who sold the horse ? the teacher"
    )
    start = excerpt_start(passage, tails, 40, tokenizer)
    found = passage[start : start + 40]
    (sentence,) = encoded(tokenizer, "The farmer sold the brown horse to a teacher .")
    assert any(found[i : i + len(sentence)] == sentence for i in range(40))
    assert passage[start - 1] in tokenizer.sentence_ends


def test_a_passage_that_fits_is_read_from_its_beginning(tokenizer):
    passage, tail = encoded(tokenizer, FILLER, "the end")
    assert excerpt_start(passage, [tail], len(passage), tokenizer) == 0
    assert excerpt_start(passage, [tail], 1000, tokenizer) == 0
    assert excerpt_start([], [tail], 10, tokenizer) == 0


def test_of_equal_excerpts_the_first_is_taken_and_the_end_can_be_reached(tokenizer):
    passage, other = encoded(tokenizer, 20 * FILLER, "zzz")
    assert excerpt_start(passage, [other], 30, tokenizer) == 0
    (last,) = encoded(tokenizer, "the horse of the farmer ran and ran and nobody saw it again")
    start = excerpt_start(passage + last, [last], len(last), tokenizer)
    assert start == len(passage)


@pytest.mark.parametrize("seed", range(20))
def test_against_a_loop_by_hand(tokenizer, seed):
    draw = random.Random(seed)
    ends = tokenizer.sentence_ends
    pool = [*range(10, 40), *ends]
    passage = [draw.choice(pool) for _ in range(draw.randint(20, 80))]
    tails = [[draw.choice(pool) for _ in range(6)] for _ in range(3)]
    length = draw.randint(0, 19)
    last = len(passage) - length
    starts = [0, *(i + 1 for i in range(last) if passage[i] in ends), last]

    def value(start):
        found = 0.0
        for token in set(passage[start : start + length]):
            options = sum(token in tail for tail in tails)
            found += options * math.log(len(passage) / passage.count(token))
        return round(found, 6)

    best = max(map(value, starts))
    expected = min(start for start in starts if value(start) == best)
    assert excerpt_start(passage, tails, length, tokenizer) == expected
