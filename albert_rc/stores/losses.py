"""What a model cannot see of a store's papers: the ends of long passages, and equal options."""

from __future__ import annotations

from itertools import pairwise

from albert_rc.io.messages import counted, first_of, shortened
from albert_rc.papers.schema import letter
from albert_rc.stores.store import Store


def losses(store: Store) -> list[str]:
    """Sentences about what the model cannot see, for the user."""
    said = []
    cut, lost = store.meta.get("num_cut", 0), store.meta.get("tokens_cut", 0)
    if cut:
        longer = (
            counted(cut, "row is", "rows are")
            if store.kind == "label"
            else counted(cut, "question has a passage that is", "questions have passages that are")
        )
        unread = (
            f"the last {counted(lost, 'token')} are not read"
            if store.kind == "label"
            else f"the parts that share most with the questions are read, and "
            f"{counted(lost, 'token')} are not"
        )
        said.append(f"{longer} longer than the window; {unread}")
    if asked := store.meta.get("num_questions_cut", 0):
        said.append(
            f"{counted(asked, 'question is', 'questions are')} too long for the window; "
            "their ends are not read"
        )
    found = twins(store)
    if found:
        numbers, owners = store.number_in_passage, store.passage_of_question
        names = [
            f"{shortened(store.meta['ids'][int(owners[q])])} question {int(numbers[q])} "
            f"({letter(one)} and {letter(other)})"
            for q, one, other in found
        ]
        said.append(
            f"{counted(len(found), 'question')} with options that are the same for the model, "
            f"which cannot choose between them: {', '.join(first_of(names, 3))}"
        )
    return said


def twins(store: Store) -> list[tuple[int, int, int]]:
    """Questions with two options of the same pieces.

    Options may differ in what a vocabulary does not keep, such as capitals and accents.

    Returns:
        The question's index, and the first two equal options of each such question.
    """
    if store.kind not in ("cloze", "choice"):
        return []
    pieces = store.tensors["piece"].numpy()
    begins = store.tensors["piece_offset"].tolist()
    found = []
    for question, (start, end) in enumerate(pairwise(store.tensors["option_offset"].tolist())):
        first: dict[bytes, int] = {}
        for option in range(start, end):
            twin = first.setdefault(pieces[begins[option] : begins[option + 1]].tobytes(), option)
            if twin < option:
                found.append((question, twin - start, option - start))
                break
    return found
