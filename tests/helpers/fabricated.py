"""Answers that no model gave, and papers that mean harm, for the tests of the report."""

import math
import random
import re
from dataclasses import replace

from albert_rc.io.json import to_json
from albert_rc.papers.schema import Passage, Question, letter
from albert_rc.report.runs import Run

HARM = (
    "A </script><script>window.hacked=1</script> _ and <!-- \"quoted\" 'text' _ \u202eso "
    "it goes\u2066 on & on _ . </style><style>*{display:none}</style> \u05e9\u05dc\u05d5\u05dd"
)
HOSTILE = Passage(
    id='<img src=x onerror="hacked=1">\u202edev\u2028"\'&.json',
    text=HARM,
    questions=(
        Question(("</script><b>one</b>", "<svg onload=hacked=1>"), 0),
        Question(("\u202eright to left", "", "javascript:hacked=1", "{{ 7*7 }}"), 2),
        Question(("x" * 400, "y y"), 1),
    ),
    kind="cloze",
    blanks=tuple(found.span() for found in re.finditer("_", HARM)),
    level="high",
)


def fabricate(papers, seed=0, name="run"):
    """A run that is right more often than not, with probabilities, the same for a seed."""
    chance = random.Random(seed)
    letters, chosen, rows = [], [], []
    for question in (q for p in papers for q in p.questions):
        logits = [chance.gauss(0, 1.5) for _ in question.options]
        if question.answer is not None:
            logits[question.answer] += 1.5
        whole = sum(map(math.exp, logits))
        row = [round(math.exp(logit) / whole, 6) for logit in logits]
        rows.append(row)
        chosen.append(row.index(max(row)))
        letters.append(letter(chosen[-1]))
    return Run(name, letters, chosen, rows)


def score_file(run, papers):
    """The bytes of a run as `predict --scores` writes them."""
    places = [(p.id, n) for p in papers for n in range(1, len(p.questions) + 1)]
    return b"".join(
        to_json({"paper": i, "number": n, "answer": a, "probabilities": row}, indent=False)
        for (i, n), a, row in zip(places, run.letters, run.probabilities, strict=True)
    )


def repeated(papers, number):
    """So many papers, made of these over and over under names of their own."""
    return [
        replace(
            papers[i % len(papers)], id=f"paper{i + 1:05}.json", level=("middle", "high")[i % 2]
        )
        for i in range(number)
    ]
