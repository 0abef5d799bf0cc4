"""Train the small vocabulary of `data/sample` on the sample's own text.

    python experiments/sample_vocabulary.py

The ids are ALBERT's: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4, then the signs that ALBERT
keeps apart from words. The result is deterministic; it is committed, so nobody needs to run this.
"""

from pathlib import Path

import sentencepiece

from albert_rc.data.readers import read_collection
from albert_rc.tokenizer import load_tokenizer

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
SIZE = 1600


def sentences() -> list[str]:
    """Every passage (blanks filled where the answer is known), question and option."""
    texts = []
    for format_name in ("cloze", "race", "dream"):
        for split in read_collection(SAMPLE / format_name):
            for passage in split.passages:
                texts += passage.filled().replace(" _ ", " ").splitlines()
                for question in passage.questions:
                    texts += [question.text, *question.options]
    return [" ".join(text.lower().split()) for text in texts if text.strip()]


if __name__ == "__main__":
    folder = SAMPLE / "vocabulary"
    folder.mkdir(exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_prefix=str(folder / "spiece"),
        vocab_size=SIZE,
        model_type="unigram",
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"],
        normalization_rule_name="nmt_nfkc",
        minloglevel=1,
    )
    (folder / "spiece.vocab").unlink()
    print(f"{folder / 'spiece.model'}: {load_tokenizer(folder).size} pieces")
