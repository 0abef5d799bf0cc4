"""A language model's probabilities for the options of questions, as a score file for `--teacher`.

    python experiments/language_model_teacher.py PAPERS MODEL OUT.jsonl [--minutes 60]

PAPERS is a folder of papers in RACE's form. MODEL is the folder of an instruction-tuned causal
language model that transformers can load, with ChatML's marks in its vocabulary, as Qwen's. Nothing
is trained: the model reads the passage and a question and is asked for the letter of the right
option. The same command goes on where it was stopped; it prints the share of right answers.

All questions about a passage, of all papers that share it, are answered in one forward pass: they
follow the passage one after the other, but each sees only the passage and itself.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from albert_rc.io.json import parse_json

TASK = (
    "<|im_start|>user\nRead the text, then answer the question about it with the letter of the "
    "right option.\n\n{passage}\n\n"
)
QUESTION = "Question: {question}\n{options}<|im_end|>\n<|im_start|>assistant\nThe right answer is"
"""Without the words at its end, 72% instead of 79% of 107 dev questions were right."""
LETTERS = "ABCDEFGH"
REPORT = 60
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class Asked:
    """A question of a paper."""

    paper: str
    number: int
    text: str
    options: list[str]
    answer: str


def read(folder: Path) -> dict[str, list[Asked]]:
    """The questions by passage, in the order of the papers' names."""
    asked: dict[str, list[Asked]] = {}
    for path in sorted(folder.rglob("*.json")):
        paper = parse_json(path.read_bytes())
        questions = asked.setdefault(paper["article"], [])
        parts = zip(paper["questions"], paper["options"], paper["answers"], strict=True)
        for number, (text, options, answer) in enumerate(parts, 1):
            questions.append(
                Asked(path.relative_to(folder).as_posix(), number, text, options, answer)
            )
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
        self.letters = [self._ids(f" {letter}")[0] for letter in LETTERS]

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    @torch.inference_mode()
    def chances(self, passage: str, asked: Sequence[Asked]) -> Iterator[list[float]]:
        """The probability of each option of each question."""
        branches = []
        for question in asked:
            lines = [f"{a}. {text}" for a, text in zip(LETTERS, question.options, strict=False)]
            text = QUESTION.format(question=question.text, options="\n".join(lines))
            branches.append(self._ids(text))
        token_1T, position_1T, seen_11TT, end_B = tree(
            self._ids(TASK.format(passage=passage)), branches
        )
        output = self.model.model(
            input_ids=token_1T, position_ids=position_1T, attention_mask=seen_11TT, use_cache=False
        )
        logit_BV = self.model.lm_head(output.last_hidden_state[0, end_B]).float()
        for question, logit_V in zip(asked, logit_BV, strict=True):
            yield logit_V[self.letters[: len(question.options)]].softmax(0).tolist()


def main() -> None:
    """Answer the questions of all papers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("papers", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then stop")
    arguments = parser.parse_args()
    out: Path = arguments.out
    done = set()
    if out.is_file():
        # A line that was being written when the run before was stopped has no end.
        whole = out.read_bytes().rpartition(b"\n")[0]
        out.write_bytes(whole + b"\n" if whole else b"")
        done = {(line["paper"], line["number"]) for line in map(parse_json, whole.splitlines())}
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
            for one, chances in zip(asked, reader.chances(passage, asked), strict=True):
                best = LETTERS[max(range(len(chances)), key=chances.__getitem__)]
                asked_now, right = asked_now + 1, right + (best == one.answer)
                line = {
                    "paper": one.paper, "number": one.number, "answer": best,
                    "probabilities": [float(f"{chance:.6g}") for chance in chances],
                }  # fmt: skip
                file.write(orjson.dumps(line) + b"\n")
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
