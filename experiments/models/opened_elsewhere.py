"""Whether transformers alone gives the answers that albert-rc gives, on whole collections.

    python -m experiments.models.opened_elsewhere PAPERS MODEL

PAPERS is a split of cloze papers or of questions, MODEL an ALBERT's folder or the name of one that
ships. transformers splits and reads the texts by itself (`AutoTokenizer`, `AlbertForMaskedLM`,
`AlbertForMultipleChoice`, fp32); only the wording of a question with its option is ours. Papers
that do not fit one window are left out and counted.
"""

from pathlib import Path

import torch
from transformers import AlbertForMaskedLM, AlbertForMultipleChoice, AutoTokenizer

from albert_rc import answer, load_model
from albert_rc.checkpoints.hub import resolve_source
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import Passage, letter
from albert_rc.stores.encode import question_with_option
from experiments.shared.scripts import parser_of

LONGEST = 512


def cloze(model: AlbertForMaskedLM, tokenizer: AutoTokenizer, paper: Passage) -> list[list[float]]:
    """The options' logits at each blank: the mean of their pieces'."""
    given = tokenizer(" [MASK] ".join(paper.segments()), return_tensors="pt")
    if given["input_ids"].shape[1] > LONGEST:
        return []
    logit_TV = model(**given).logits[0]
    places = (given["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    return [
        [
            float(logit_TV[place][tokenizer(option, add_special_tokens=False)["input_ids"]].mean())
            for option in question.options
        ]
        for place, question in zip(places, paper.questions, strict=True)
    ]


def choice(
    model: AlbertForMultipleChoice, tokenizer: AutoTokenizer, paper: Passage
) -> list[list[float]]:
    """The options' logits of each question."""
    found = []
    for question in paper.questions:
        options = [question_with_option(question.text, option) for option in question.options]
        given = tokenizer([paper.text] * len(options), options, return_tensors="pt", padding=True)
        if given["input_ids"].shape[1] > LONGEST:
            return []
        found.append(model(**{name: value[None] for name, value in given.items()}).logits[0])
    return [logit_K.tolist() for logit_K in found]


def main() -> None:
    """Answer in both ways, and compare."""
    parser = parser_of(__doc__)
    parser.add_argument("papers", type=Path)
    parser.add_argument("model")
    arguments = parser.parse_args()
    papers = read_split(arguments.papers)
    folder = resolve_source(arguments.model)
    read, kind = (
        (cloze, AlbertForMaskedLM) if papers.kind == "cloze" else (choice, AlbertForMultipleChoice)
    )
    theirs = kind.from_pretrained(folder).float().eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = answer(
        arguments.papers,
        load_model(folder, papers.kind),
        precision="fp32",
        temperature=1.0,
        option_score="once",
    )
    asked = same = left = 0
    farthest = 0.0
    with torch.inference_mode():
        for paper, ours in zip(papers.passages, given, strict=True):
            logits = read(theirs, tokenizer, paper)
            left += not logits
            for logit_K, one in zip(logits, ours.answers, strict=bool(logits)):
                chance_K = torch.tensor(logit_K).softmax(-1)
                asked += 1
                same += one.letter == letter(int(chance_K.argmax()))
                found = torch.tensor(list(one.probabilities.values()))
                farthest = max(farthest, float((found - chance_K).abs().max()))
    print(
        f"{arguments.model}: {same:,} of {asked:,} answers are the same, probabilities within "
        f"{farthest:.1e}; {left} of {len(papers.passages)} papers need several windows, left out"
    )


if __name__ == "__main__":
    main()
