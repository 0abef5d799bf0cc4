"""A language model's probabilities for the options of questions, as a score file for `--teacher`.

    python -m experiments.models.language_model_teacher PAPERS MODEL OUT.jsonl [--minutes 60]

PAPERS is a folder of papers in RACE's form. MODEL is the folder of an instruction-tuned causal
language model that transformers can load, with ChatML's marks in its vocabulary, as Qwen's. Nothing
is trained: the model reads the passage and a question and is asked for the letter of the right
option. The same command goes on where it was stopped; it prints the share of right answers.

All questions about a passage, of all papers that share it, are answered in one forward pass: they
follow the passage one after the other, but each sees only the passage and itself.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from albert_rc.io.atomic import write_bytes
from albert_rc.io.json import json_lines, read_json_lines, six_digits
from albert_rc.papers.formats import read_good
from albert_rc.papers.schema import Question, letter
from experiments.shared.scripts import parser_of

TASK = (
    "<|im_start|>user\nRead the text, then answer the question about it with the letter of the "
    "right option.\n\n{passage}\n\n"
)
QUESTION = "Question: {question}\n{options}<|im_end|>\n<|im_start|>assistant\nThe right answer is"
"""Without the words at its end, 72% instead of 79% of 107 dev questions were right."""
REPORT = 60
"""Seconds between two lines of progress."""


class Asked(NamedTuple):
    """A question, and where it is."""

    paper: str
    number: int
    question: Question


def read(folder: Path) -> dict[str, list[Asked]]:
    """The questions by passage, in the order of the papers' names."""
    asked: dict[str, list[Asked]] = {}
    for passage in read_good(folder, "race").passages:
        questions = asked.setdefault(passage.text, [])
        for number, question in enumerate(passage.questions, 1):
            questions.append(Asked(passage.id, number, question))
    return asked


def tree(prefix: Sequence[int], branches: Sequence[Sequence[int]]) -> tuple[Tensor, ...]:
    """Token sequences with the same beginning, as one sequence.

    Returns:
        The tokens, [1, T]; their positions, [1, T], which go on from the prefix in every branch;
        which tokens each sees, [1, 1, T, T], bool; and where the branches end, [B].
    """
    tokens, positions = list(prefix), list(range(len(prefix)))
    branch = [-1] * len(prefix)
    ends = []
    for index, part in enumerate(branches):
        tokens += part
        positions += range(len(prefix), len(prefix) + len(part))
        branch += [index] * len(part)
        ends.append(len(tokens) - 1)
    branch_T = torch.tensor(branch)
    before_TT = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril()
    same_TT = (branch_T[:, None] == branch_T) | (branch_T == -1)
    return (
        torch.tensor([tokens]),
        torch.tensor([positions]),
        (before_TT & same_TT)[None, None],
        torch.tensor(ends),
    )


class Reader:
    """A language model that is asked for letters."""

    def __init__(self, folder: Path) -> None:
        loaded = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation="sdpa"
        )
        self.model = loaded.eval()
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    @torch.inference_mode()
    def chances(self, passage: str, questions: Sequence[Question]) -> Iterator[list[float]]:
        """The probability of each option of each question."""
        branches = []
        for question in questions:
            lines = [f"{letter(place)}. {text}" for place, text in enumerate(question.options)]
            text = QUESTION.format(question=question.text, options="\n".join(lines))
            branches.append(self._ids(text))
        token_1T, position_1T, seen_11TT, end_B = tree(
            self._ids(TASK.format(passage=passage)), branches
        )
        output = self.model.model(
            input_ids=token_1T, position_ids=position_1T, attention_mask=seen_11TT, use_cache=False
        )
        logit_BV = self.model.lm_head(output.last_hidden_state[0, end_B]).float()
        for question, logit_V in zip(questions, logit_BV, strict=True):
            letters = [self._ids(f" {letter(place)}")[0] for place in range(len(question.options))]
            yield logit_V[letters].softmax(0).tolist()


def main() -> None:
    """Answer the questions of all papers."""
    parser = parser_of(__doc__)
    parser.add_argument("papers", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then stop")
    arguments = parser.parse_args()
    out: Path = arguments.out
    # A line that was being written when the run before was stopped is left out.
    before = list(read_json_lines(out))
    write_bytes(out, json_lines(before))
    done = {(line["paper"], line["number"]) for line in before}
    by_passage = list(read(arguments.papers).items())
    random.Random(0).shuffle(by_passage)  # so that a part of them is like the whole
    reader = Reader(arguments.model)
    started = said = time.monotonic()
    asked_now = right = 0
    with out.open("ab") as file:
        for index, (passage, all_asked) in enumerate(by_passage, 1):
            asked = [one for one in all_asked if (one.paper, one.number) not in done]
            if not asked:
                continue
            found = reader.chances(passage, [one.question for one in asked])
            for one, chances in zip(asked, found, strict=True):
                best = max(range(len(chances)), key=chances.__getitem__)
                asked_now, right = asked_now + 1, right + (best == one.question.answer)
                line = {
                    "paper": one.paper, "number": one.number, "answer": letter(best),
                    "probabilities": [six_digits(chance) for chance in chances],
                }  # fmt: skip
                file.write(json_lines([line]))
            file.flush()
            now = time.monotonic()
            if now - said > REPORT or index == len(by_passage):
                said = now
                print(
                    f"{index:,} of {len(by_passage):,} passages, {asked_now:,} questions in "
                    f"{(now - started) / 60:.1f} min, {right / asked_now:.1%} right", flush=True
                )  # fmt: skip
            if now - started > 60 * arguments.minutes:
                break


if __name__ == "__main__":
    main()
