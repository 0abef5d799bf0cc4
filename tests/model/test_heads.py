"""Option logits by hand, and losses as sums."""

import pytest
import torch
from small import SHAPE, model_for

from albert_rc.errors import UsageError
from albert_rc.model.config import RECOMPUTE, Compute, EncoderConfig, size_config
from albert_rc.model.feed_forward import activation, quick_activation
from albert_rc.model.heads import OPTION_SCORES, ReadingModel
from albert_rc.stores.batches import Collator
from albert_rc.stores.masking import WordHider


@pytest.mark.parametrize("score", OPTION_SCORES)
def test_option_logits_are_those_of_the_whole_vocabulary(stores, tokenizer, score):
    store = stores["cloze", "train"]
    model = model_for("cloze", score)
    batch = Collator(store, tokenizer)([6, 19, 0])  # 3, 5 and 4 options a blank
    output = model(batch)
    hidden = model.encoder(batch.token_T, batch.place_T, batch.lengths)[batch.read_S]
    word = model.encoder.embeddings.word.weight
    every = model.head.transform(hidden[batch.blank_index_Q]) @ word.T + model.head.bias
    offset = store.tensors["option_offset"]
    for place, question in enumerate(batch.question_Q.tolist()):
        options = range(offset[question], offset[question + 1])
        for k, option in enumerate(options):
            start, end = store.tensors["piece_offset"][option : option + 2]
            pieces = store.tensors["piece"][start:end].long()
            logits = every[place, pieces]
            expected = {
                "mean": lambda x, p: x.mean(),
                "first": lambda x, p: x[0],
                "salience": lambda x, p: (x * (word[p] @ model.head.salience).softmax(0)).sum(),
            }[score](logits, pieces)
            torch.testing.assert_close(output.logits_QK[place, k], expected, atol=1e-4, rtol=1e-4)
        assert output.logits_QK[place, len(options) :].eq(float("-inf")).all()


def test_salience_starts_as_the_mean(stores, tokenizer):
    batch = Collator(stores["cloze", "dev"], tokenizer)([0, 1])
    mean, salience = model_for("cloze"), ReadingModel(SHAPE, "cloze", "salience").eval()
    salience.load_state_dict(mean.state_dict(), strict=False)
    assert torch.equal(mean(batch).logits_QK, salience(batch).logits_QK)


@pytest.mark.parametrize("name", ["cloze", "race", "dream"])
def test_losses_and_counts_add_up_over_micro_batches(stores, tokenizer, name):
    store = stores[name, "train"]
    model = model_for("cloze" if name == "cloze" else "choice")
    collate = Collator(store, tokenizer)
    whole, parts = model(collate([0, 1, 2, 3])), [model(collate([i])) for i in range(4)]
    torch.testing.assert_close(whole.loss_sum, sum(p.loss_sum for p in parts), rtol=1e-5, atol=1e-4)
    assert whole.num_correct == sum(p.num_correct for p in parts)


@pytest.mark.parametrize("name", ["cloze", "race"])
def test_questions_without_an_answer_cost_nothing(stores, tokenizer, name):
    store = stores[name, "dev"]
    model = model_for("cloze" if name == "cloze" else "choice")
    batch = Collator(store, tokenizer)([0, 1])
    batch.answer_Q[1:] = -1
    output = model(batch)
    expected = -output.logits_QK.log_softmax(-1)[0, batch.answer_Q[0]]
    torch.testing.assert_close(output.loss_sum, expected)
    output.loss_sum.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("task", ["cloze", "choice"])
def test_neighbours_in_a_batch_change_nothing(stores, tokenizer, task):
    store = stores["cloze" if task == "cloze" else "race", "train"]
    collate, model = Collator(store, tokenizer), model_for(task)
    order = store.lengths.argsort()
    short, long = int(order[0]), int(order[-1])
    together = model(collate([short, long]))
    alone = model(collate([short]))
    count = alone.logits_QK.shape[0]
    width = alone.logits_QK.shape[1]
    torch.testing.assert_close(
        together.logits_QK[:count, :width], alone.logits_QK, atol=1e-4, rtol=1e-4
    )


def test_recomputing_changes_memory_not_gradients(stores, tokenizer):
    batch = Collator(stores["cloze", "dev"], tokenizer)([0, 1])
    gradients = []
    for recompute in RECOMPUTE:
        model = model_for("cloze").train()
        model.encoder.compute = Compute(recompute=recompute)
        model(batch).loss_sum.backward()
        gradients.append([p.grad for p in model.parameters()])
    for one, *others in zip(*gradients, strict=True):
        assert all(torch.equal(one, other) for other in others)


def test_the_masked_loss_is_adjusted_by_frequency(stores, tokenizer):
    store = stores["cloze", "train"]
    model = model_for("cloze")
    batch = Collator(store, tokenizer, WordHider(tokenizer, 0.2, 0))([0])
    hidden = model.encoder(batch.token_T, batch.place_T, batch.lengths)[batch.read_S]
    word = model.encoder.embeddings.word.weight
    counts = torch.bincount(store.tensors["token"].long(), minlength=1600)
    model.head.set_prior(counts)
    hidden_words = hidden[batch.masked_index_M]
    found, _, _ = model.head.word_loss(hidden_words, batch.masked_token_M, word)
    logits = model.head.transform(hidden_words) @ word.T + model.head.bias
    logits = logits + ((counts + 0.1) / (counts + 0.1).sum()).log()
    expected = torch.nn.functional.cross_entropy(logits, batch.masked_token_M, reduction="sum")
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(model(batch).masked_loss_sum, expected)


def test_published_sizes_are_those_of_version_2():
    base = size_config("base")
    assert (base.activation, base.dropout) == ("gelu_new", 0.0)
    with pytest.raises(UsageError, match="no such size"):
        size_config("huge")


def test_shapes_are_checked_by_flag():
    with pytest.raises(UsageError, match="--hidden-size 770 must be divisible by --num-heads 12"):
        EncoderConfig(hidden_size=770)


def test_too_long_a_sequence_is_refused():
    model = model_for("cloze")
    with pytest.raises(UsageError, match="600 tokens in a sequence, but the model takes 512"):
        model.encoder(torch.zeros(600).long(), torch.arange(600), (600,))


def test_the_quick_gelu_is_within_rounding():
    """In bf16 the exact form of GELU stands in for the tanh form: no worse than rounding is."""
    x = torch.randn(200_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = x.bfloat16()
    tanh = torch.nn.functional.gelu(x.double(), approximate="tanh")
    rounding = (tanh.bfloat16().double() - tanh).square().mean().sqrt()
    quick = activation(quick_activation("gelu_new", torch.bfloat16, torch.device("cpu")))
    error = (quick(x).double() - tanh).square().mean().sqrt()
    assert error < 1.02 * rounding
    assert quick_activation("gelu_new", torch.float32, torch.device("cpu")) == "gelu_new"
    assert quick_activation("relu", torch.bfloat16, torch.device("cpu")) == "relu"
