"""Conversion of BERT to ALBERT: an equivalent model, fitted embeddings, smaller vocabularies.

An ALBERT with as many groups as layers, E = H and an identity projection is equivalent to a BERT.
From there `smaller` reduces its layers and embeddings, and this module its vocabulary to the pieces
in use; fine-tuning then recovers most of the loss.
"""

# V vocabulary, K kept pieces, E embedding, H hidden, T tokens

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.checkpoints.smaller import LAYERS, WORDS, factorised, identity_projection
from albert_rc.errors import UsageError
from albert_rc.io.atomic import write_bytes
from albert_rc.io.json import parse_json, to_json
from albert_rc.model.config import EncoderConfig
from albert_rc.model.heads import HeadedModel, ReadingModel
from albert_rc.model.pretraining_head import PretrainingModel
from albert_rc.model.sharing import PARTS
from albert_rc.text.tokenizer import HuggingFaceTokenizer, Tokenizer, load_tokenizer

Model = TypeVar("Model", bound=HeadedModel)


def as_albert(model: Model) -> Model:
    """The ALBERT that is equivalent to a BERT, up to rounding.

    Args:
        model: a model of the family `bert`.

    Raises:
        UsageError: the model is of another family.
    """
    config = model.config
    if config.family != "bert":
        raise UsageError(f"a model of the family {config.family} cannot be made an ALBERT")
    weights = model.state_dict() | identity_projection(config.hidden_size)
    return _filled(replace(config, family="albert"), weights, model)


def with_embedding_size(
    model: PretrainingModel, size: int, count_V: Tensor | None = None
) -> PretrainingModel:
    """An ALBERT with embeddings factorised to `size` dimensions; see `smaller.factorised`.

    `fit_embeddings` partly recovers the loss.

    Args:
        model: an ALBERT.
        size: E of the result.
        count_V: frequency of each piece; uniform if None.

    Raises:
        UsageError: E is not smaller.
    """
    weights = factorised(model.state_dict(), size, count_V)
    return _filled(replace(model.config, embedding_size=size), weights, model)


def with_common(model: Model, common: str) -> Model:
    """An ALBERT whose layers share their attention, or their feed-forward networks.

    What they come to share is the mean of theirs (Lan et al. 2020, section 4.5, trains such models
    from random weights; here it is a start, to be trained).

    Args:
        model: an ALBERT with one group for each layer.
        common: "attention" or "ffn".
    """
    weights = model.state_dict()
    for part in PARTS[common]:
        for kind in ("weight", "bias"):
            names = [f"{LAYERS}{at}.{part}.{kind}" for at in range(model.config.num_layers)]
            mean = torch.stack([weights[name] for name in names]).mean(0)
            weights |= dict.fromkeys(names, mean)
    return _filled(replace(model.config, common=common), weights, model)


def fit_embeddings(
    model: PretrainingModel,
    teacher: PretrainingModel,
    token_T: Tensor,
    *,
    steps: int = 2000,
    batch: int = 4096,
    rate: float = 1e-3,
    seed: int = 0,
) -> list[float]:
    """Train a model's embeddings and projection to reproduce a teacher's input of the first layer.

    Args:
        model: changed in place.
        teacher: with the same vocabulary, hidden size and positions.
        token_T: token ids of running text.
        steps: number of steps of Adam, with a learning rate that falls to 0.
        batch: tokens of a step, each at a random position.
        rate: initial learning rate.
        seed: random seed for tokens and positions.

    Returns:
        The relative squared error at each tenth of the steps.
    """
    generator = torch.Generator().manual_seed(seed)
    trained = [*model.encoder.embeddings.parameters(), *_projection(model).parameters()]
    optimizer = torch.optim.Adam(trained, lr=rate)
    errors = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        chosen_T = token_T[torch.randint(len(token_T), (batch,), generator=generator)].long()
        places = model.config.max_positions - model.config.position_offset
        position_T = torch.randint(places, (batch,), generator=generator)
        with torch.no_grad():
            wanted_TH = _first_states(teacher, chosen_T, position_T)
        loss = F.mse_loss(_first_states(model, chosen_T, position_T), wanted_TH)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(1, steps // 10) == 0 or step == steps - 1:
            errors.append(float(loss.detach() / wanted_TH.var()))
    return errors


def _projection(model: PretrainingModel) -> torch.nn.Linear:
    projection = model.encoder.projection
    assert projection is not None
    return projection


def _first_states(model: PretrainingModel, token_T: Tensor, position_T: Tensor) -> Tensor:
    """Input of the first layer, [T, H]; segment 0, no dropout."""
    embeddings = model.encoder.embeddings
    assert embeddings.segment is not None
    sum_TE = (
        embeddings.word(token_T)
        + embeddings.position(position_T + model.config.position_offset)
        + embeddings.segment.weight[0]
    )
    states_TH: Tensor = _projection(model)(embeddings.norm(sum_TE))
    return states_TH


def _filled(config: EncoderConfig, weights: dict[str, Tensor], like: Model) -> Model:
    model: HeadedModel
    if isinstance(like, PretrainingModel):
        model = PretrainingModel(config, with_pairs=like.head.pair is not None)
    else:
        model = ReadingModel(config, like.task)
    model.load_state_dict({name: weight.clone() for name, weight in weights.items()})
    return cast(Model, model)


def same_pieces(theirs: Tokenizer, ours: Tokenizer) -> list[int]:
    """The ids in one WordPiece vocabulary of another's pieces, in the other's order.

    Special pieces are matched by what they are for, not by how they are written.
    """
    index = {piece: at for at, piece in enumerate(theirs.pieces(range(theirs.size)))}
    for name in ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id"):
        index[ours.pieces([getattr(ours, name)])[0]] = getattr(theirs, name)
    return [index[piece] for piece in ours.pieces(range(ours.size))]


def most_used(counts: Counter[int], tokenizer: Tokenizer, size: int) -> list[int]:
    """The ids of a vocabulary's most frequent pieces, in the vocabulary's order.

    Special pieces are always included, and so is every single character that occurs, or is
    plain ASCII, both word-initial and word-internal, so that all words can still be encoded.

    Args:
        counts: number of occurrences of each id.
        tokenizer: a WordPiece tokenizer.
        size: number of pieces.

    Raises:
        UsageError: the special pieces and characters alone exceed `size`.
    """
    special = {
        tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id,
    }  # fmt: skip
    pieces = tokenizer.pieces(range(tokenizer.size))
    seen = {character for index in counts for character in pieces[index].removeprefix("##")}
    kept = set(special)
    for index, piece in enumerate(pieces):
        character = piece.removeprefix("##")
        if len(character) == 1 and (character.isascii() or character in seen):
            kept.add(index)
    if len(kept) > size:
        raise UsageError(f"--vocabulary {size}: {len(kept)} pieces are needed at least")
    for index, _ in counts.most_common():
        if len(kept) == size:
            break
        kept.add(index)
    return sorted(kept)


def count_pieces(texts: Iterable[tuple[str, int]], tokenizer: Tokenizer) -> Counter[int]:
    """Number of occurrences of each id in texts, each given with its weight."""
    counts: Counter[int] = Counter()
    for text, weight in texts:
        for index in tokenizer.encode([text])[0]:
            counts[index] += weight
    return counts


def with_vocabulary(model: Model, kept: list[int]) -> Model:
    """A model with only the pieces in `kept`; new ids are indices into it."""
    weights = model.state_dict()
    kept_K = torch.tensor(kept)
    for name in {WORDS, "head.bias"} & weights.keys():
        weights[name] = weights[name][kept_K]
    pad = kept.index(model.config.pad_id)
    return _filled(replace(model.config, vocab_size=len(kept), pad_id=pad), weights, model)


def with_more_pieces(model: Model, made_of: list[list[int]]) -> Model:
    """A model with further pieces, each with the mean of some others' embeddings and biases.

    Args:
        model: a model with a head for masked words.
        made_of: the ids of the others, for each new piece.
    """
    weights = model.state_dict()
    for name in (WORDS, "head.bias"):
        old = weights[name]
        weights[name] = torch.cat([old, torch.stack([old[ids].mean(0) for ids in made_of])])
    size = model.config.vocab_size + len(made_of)
    return _filled(replace(model.config, vocab_size=size), weights, model)


def cut_tokenizer(tokenizer: Tokenizer, kept: list[int], out: Path) -> Tokenizer:
    """Write a WordPiece tokenizer with only some of its pieces into `out`.

    Texts whose pieces are all kept are split as before: the longest match stays the longest.

    Args:
        tokenizer: the tokenizer to reduce.
        kept: the ids of the pieces, in order, including the special ones.
        out: folder, created if missing; gets tokenizer.json and tokenizer_config.json.

    Raises:
        UsageError: it is not a WordPiece vocabulary.
    """
    content = {}
    if isinstance(tokenizer, HuggingFaceTokenizer):
        content = parse_json(tokenizer.as_json())
    # Files of older versions of the tokenizers library do not name the type.
    if content.get("model", {}).get("continuing_subword_prefix") != "##":
        raise UsageError(f"{tokenizer.folder}: only WordPiece vocabularies can be cut")
    new_id = {old: new for new, old in enumerate(kept)}
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = {
        piece: new_id[index] for piece, index in vocabulary.items() if index in new_id
    }
    content["added_tokens"] = [
        token | {"id": new_id[token["id"]]}
        for token in content["added_tokens"]
        if token["id"] in new_id
    ]
    content["post_processor"] = _framing(tokenizer.pieces([tokenizer.cls_id, tokenizer.sep_id]), [
        new_id[tokenizer.cls_id], new_id[tokenizer.sep_id],
    ])  # fmt: skip
    write_bytes(out / "tokenizer.json", to_json(content))
    # Otherwise transformers would choose ALBERT's tokenizer by the model type.
    how = {"tokenizer_class": "BertTokenizer", "model_max_length": 512}
    lower = (content.get("normalizer") or {}).get("lowercase", True)
    write_bytes(out / "tokenizer_config.json", to_json(how | {"do_lower_case": lower}))
    return load_tokenizer(out)


def _framing(names: list[str], ids: list[int]) -> dict[str, Any]:
    """[CLS] a [SEP] b [SEP] as a post-processor of the tokenizers library."""
    first, last = ({"SpecialToken": {"id": name, "type_id": 0}} for name in names)
    text = {"Sequence": {"id": "A", "type_id": 0}}
    other = [
        {"Sequence": {"id": "B", "type_id": 1}},
        {"SpecialToken": {"id": names[1], "type_id": 1}},
    ]
    return {
        "type": "TemplateProcessing",
        "single": [first, text, last],
        "pair": [first, text, last, *other],
        "special_tokens": {
            name: {"id": name, "ids": [index], "tokens": [name]}
            for name, index in zip(names, ids, strict=True)
        },
    }
