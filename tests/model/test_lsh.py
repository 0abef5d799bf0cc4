"""Attention by hashing: exact over what it shows, and it shows nothing that it must not."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from albert_rc.errors import UsageError
from albert_rc.model import hashing, lsh
from albert_rc.model.attention import ATTENTION, Terms
from albert_rc.model.config import LshConfig
from albert_rc.model.dropout import NOTHING, Dropout
from albert_rc.model.hashing import angular, make_plan
from albert_rc.model.layout import Layout
from albert_rc.model.lsh import LAST_RESORT, lsh_attention

OURS = LshConfig(chunk=4, rounds=3)
FAITHFUL = LshConfig(chunk=4, rounds=3, shared=True)
FORMS = {
    "ours": OURS,
    "ours, rotations": replace(OURS, hash="rotations", local=False),
    "ours, probes": replace(OURS, hash="rotations", probes=2),
    "faithful": FAITHFUL,
    "faithful, probes": replace(FAITHFUL, probes=2),
}


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]


def drawn(tokens, heads=2, size=6, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(tokens, heads, size, generator=generator, dtype=dtype)
    return q, torch.randn(tokens, 2, heads, size, generator=generator, dtype=dtype)


def shown(q, k, settings, layer=0):
    """Which keys a query sees, [X, L, L], told from the plan by hand."""
    length = q.shape[1]
    valid = torch.ones(q.shape[:2], dtype=torch.bool)
    plan = make_plan(q, k, valid, settings, layer, heads=len(q))
    seen = torch.zeros(len(q), length, length, dtype=torch.bool)
    for x in range(len(q)):
        for sorting in plan.rounds:
            for chunk in range(plan.chunks):
                places = range(chunk * plan.chunk, (chunk + 1) * plan.chunk)
                around = [(chunk - plan.before + i) % plan.chunks for i in range(plan.width)]
                keys = [
                    int(sorting.key_at_XL[x, other * plan.chunk + i])
                    for other in around
                    for i in range(plan.chunk)
                ]
                for query in (int(sorting.query_at_XL[x, place]) for place in places):
                    for key in keys:
                        alike = sorting.query_bucket_XL is None or bool(
                            sorting.query_bucket_XL[x, query] == sorting.key_bucket_XL[x, key]
                        )
                        seen[x, query, key] |= alike
    return seen


def reference(q, kv, settings, layer=0):
    """Dense attention over what is shown."""
    k, v = kv.unbind(1)
    scale = q.shape[-1] ** -0.5
    if settings.shared:
        k, scale = functional.normalize(q, dim=-1), 1.0
    q_XLH, k_XLH = q.transpose(0, 1), k.transpose(0, 1)
    seen = shown(q_XLH.detach(), k_XLH.detach(), settings, layer)
    logits = q_XLH @ k_XLH.mT * scale
    if settings.shared:
        logits = logits.masked_fill(torch.eye(len(q), dtype=torch.bool), LAST_RESORT)
    logits = logits.masked_fill(~seen, -torch.inf)
    return (logits.softmax(-1) @ v.transpose(0, 1)).transpose(0, 1)


def test_rounds_are_one_softmax_over_all_that_they_show(form):
    q, kv = drawn(40)
    found = lsh_attention(q, kv, (40,), form)
    torch.testing.assert_close(found, reference(q, kv, form), atol=1e-9, rtol=0)
    seen = shown(q.transpose(0, 1), kv[:, 0].transpose(0, 1), form).double().mean()
    assert seen < 0.9  # else this would be a test of dense attention


def test_gradients_are_those_of_that_softmax(form):
    q, kv = (x.requires_grad_() for x in drawn(24))
    upstream, _ = drawn(24, seed=3)
    found = torch.autograd.grad(lsh_attention(q, kv, (24,), form), (q, kv), upstream)
    expected = torch.autograd.grad(reference(q, kv, form), (q, kv), upstream)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=0)


def test_reformers_chunks_attend_to_themselves_and_the_one_before(monkeypatch):
    """With all tokens in one bucket, told without the plan (Kitaev et al. 2020, section 2)."""
    monkeypatch.setattr(hashing, "_drawn", lambda *at: torch.ones(at[-2] * at[-1]))
    settings = LshConfig(shared=True, chunk=4, rounds=1, buckets=2)
    q, kv = drawn(16)
    q = q.abs() + 0.1
    found = lsh_attention(q, kv, (16,), settings)
    chunk_L = torch.arange(16) // 4
    apart_LL = (chunk_L[:, None] - chunk_L) % 4
    seen_LL = (apart_LL <= 1) & ~torch.eye(16, dtype=torch.bool)
    key = functional.normalize(q, dim=-1)
    logit_NLL = torch.einsum("inh,jnh->nij", q, key).masked_fill(~seen_LL, float("-inf"))
    expected = torch.einsum("nij,jnh->inh", logit_NLL.softmax(-1), kv[:, 1])
    torch.testing.assert_close(found, expected)


def test_a_pair_found_twice_counts_once_in_any_number_of_chunks(monkeypatch):
    """Two rounds that sort in the same way are one; the numbers of chunks exceed 16 bits."""
    monkeypatch.setattr(hashing, "_drawn", lambda *at: torch.ones(at[-2] * at[-1]))
    length = 4 * (2**15 + 100)
    q, kv = drawn(length, heads=1, size=4, dtype=torch.float32)
    once, twice = (
        lsh_attention(q.abs(), kv, (length,), LshConfig(shared=True, chunk=4, rounds=n, buckets=2))
        for n in (1, 2)
    )
    torch.testing.assert_close(twice, once)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("name", ["ours", "faithful"])
def test_gradcheck(name, dropout):
    q, kv = (x.requires_grad_() for x in drawn(13, heads=1, size=3))
    landmark = torch.arange(13) % 6 == 0

    def attend(q, kv):
        torch.manual_seed(0)
        return lsh_attention(q, kv, (8, 5), FORMS[name], 0, Dropout(dropout), landmark)

    assert torch.autograd.gradcheck(attend, (q, kv), atol=1e-4)


@pytest.mark.parametrize("length", [1, 3, 4, 8, 12])
def test_where_chunks_see_all_it_is_dense_attention(length):
    q, kv = drawn(length, dtype=torch.float32)
    k, v = kv.unbind(1)
    expected = functional.scaled_dot_product_attention(*(x.transpose(0, 1) for x in (q, k, v)))
    for settings in (OURS, FORMS["ours, rotations"]):
        found = lsh_attention(q, kv, (length,), settings)
        torch.testing.assert_close(found, expected.transpose(0, 1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["ours", "faithful"])
@pytest.mark.parametrize("lengths", [(21, 7, 40, 12), (5, 12), (40, 13)])
def test_short_sequences_of_a_batch_are_not_hashed(name, lengths, monkeypatch):
    settings, tokens = FORMS[name], sum(lengths)
    q, kv = (x.requires_grad_() for x in drawn(tokens))
    landmark = torch.zeros(tokens, dtype=torch.bool)
    landmark[[0, lengths[0] + 1, -1]] = True
    expected = lsh_attention(q, kv, lengths, settings, 1, NOTHING, landmark)
    weights = torch.randn(expected.shape, dtype=torch.float64)
    gradients = torch.autograd.grad((expected * weights).sum(), (q, kv))
    hashed = []

    def note(q, kv, lengths, *others):
        hashed.extend(lengths)
        return lsh_attention(q, kv, lengths, *others)

    monkeypatch.setattr("albert_rc.model.attention.lsh_attention", note)
    how = Terms(settings, 1, landmark)
    found = ATTENTION["lsh"](q, kv, Layout(lengths, lengths), NOTHING, how)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad((found * weights).sum(), (q, kv)), gradients)
    assert hashed == [length for length in lengths if settings.shared or length > 12]


@pytest.mark.parametrize("length", [1, 3, 4])
def test_one_bucket_and_one_chunk_is_shared_dense_attention(length):
    q, kv = drawn(length, dtype=torch.float32)
    settings = replace(FAITHFUL, buckets=2, rounds=1)
    # Of two buckets, +r and -r, all queries are on r's side.
    q = q.abs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("albert_rc.model.hashing._drawn", lambda *args: torch.ones(args[-2:]))
        found = lsh_attention(q, kv, (length,), settings)
    k = functional.normalize(q, dim=-1)
    logits = torch.einsum("snh,tnh->nst", q, k)
    if length > 1:  # nobody sees itself, unless there is nobody else
        logits = logits.masked_fill(torch.eye(length, dtype=torch.bool), -torch.inf)
    expected = torch.einsum("nst,tnh->snh", logits.softmax(-1), kv[:, 1])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_a_sequence_does_not_know_the_others(form):
    lengths = (21, 7, 40, 23)
    q, kv = drawn(sum(lengths))
    landmark = torch.arange(sum(lengths)) % 9 == 0
    together = lsh_attention(q, kv, lengths, form, landmark_T=landmark)
    start = 0
    for length in lengths:
        rows = slice(start, start + length)
        alone = lsh_attention(q[rows], kv[rows], (length,), form, landmark_T=landmark[rows])
        torch.testing.assert_close(together[rows], alone, atol=1e-9, rtol=0)
        start += length


def test_padding_is_never_attended(form):
    """A value of 1 everywhere comes out as 1 everywhere; padding has a value of 0."""
    q, kv = drawn(21)
    kv[:, 1] = 1
    found = lsh_attention(q, kv, (21,), form, landmark_T=torch.arange(21) == 4)
    torch.testing.assert_close(found, torch.ones_like(found), atol=1e-6, rtol=0)


def test_landmarks_see_all_and_are_seen_by_all():
    q, kv = drawn(40)
    landmark = torch.zeros(40, dtype=torch.bool)
    landmark[[0, 17, 39]] = True
    found = lsh_attention(q, kv, (40,), OURS, landmark_T=landmark)
    k, v = kv.unbind(1)
    dense = torch.einsum("snh,tnh->nst", q, k) * q.shape[-1] ** -0.5
    expected = torch.einsum("nst,tnh->snh", dense.softmax(-1), v)
    torch.testing.assert_close(found[landmark], expected[landmark], atol=1e-9, rtol=0)
    kv[17, 1] += 100
    moved = lsh_attention(q, kv, (40,), OURS, landmark_T=landmark)
    assert ((moved - found).abs().amax((1, 2)) > 1e-3).all()


def test_all_tokens_as_landmarks_are_dense_attention():
    q, kv = drawn(40)
    found = lsh_attention(q, kv, (40,), OURS, landmark_T=torch.ones(40, dtype=torch.bool))
    k, v = kv.unbind(1)
    expected = functional.scaled_dot_product_attention(*(x.transpose(0, 1) for x in (q, k, v)))
    torch.testing.assert_close(found, expected.transpose(0, 1), atol=1e-9, rtol=0)


@pytest.mark.parametrize("hash_", ["rotations", "projections"])
def test_more_rounds_capture_more_of_dense_attention(hash_):
    """And hashing more than chance: as many keys that are drawn blindly."""
    q, kv = drawn(256, heads=2, size=16)
    # Attention that is worth hashing: each query means one of the keys.
    q = kv[torch.randperm(256, generator=torch.Generator().manual_seed(1)), 0] * 2 + 0.5 * q
    q_XLH, k_XLH = q.transpose(0, 1), kv[:, 0].transpose(0, 1)
    weights = (q_XLH @ k_XLH.mT / 4).softmax(-1)
    mass, blind = [], []
    for rounds in (1, 2, 4, 8):
        settings = LshConfig(chunk=16, rounds=rounds, hash=hash_, local=False)
        seen = shown(q_XLH, k_XLH, settings)
        mass.append(float((weights * seen).sum(-1).mean()))
        blind.append(float(seen.double().mean()))
    assert mass == sorted(mass)
    assert all(caught > share + 0.03 for caught, share in zip(mass, blind, strict=True))
    assert mass[-1] > 0.8


def test_angles_order_keys_as_inner_products_do():
    q, kv = drawn(30)
    q_XLH, k_XLH = q.transpose(0, 1), kv[:, 0].transpose(0, 1)
    valid = torch.ones(2, 30, dtype=torch.bool)
    valid[:, 25:] = False
    one, other = angular(q_XLH, k_XLH, valid)
    for vectors in (one, other[:, :25]):
        lengths = vectors.norm(dim=-1)
        torch.testing.assert_close(lengths, torch.ones_like(lengths))
    order = (q_XLH @ k_XLH[:, :25].mT).argsort(-1)
    assert torch.equal((one @ other[:, :25].mT).argsort(-1), order)


def test_hashes_are_drawn_from_the_seed_and_the_layer():
    q, kv = drawn(64)
    settings = replace(OURS, rounds=2)
    first = lsh_attention(q, kv, (64,), settings)
    assert torch.equal(first, lsh_attention(q, kv, (64,), settings))
    assert not torch.equal(first, lsh_attention(q, kv, (64,), settings, layer=1))
    assert not torch.equal(first, lsh_attention(q, kv, (64,), replace(settings, seed=1)))


def test_dropout_keeps_the_mean():
    q, kv = drawn(24)
    plain = lsh_attention(q, kv, (24,), OURS)
    torch.manual_seed(0)
    many = [lsh_attention(q, kv, (24,), OURS, dropout=Dropout(0.2)) for _ in range(400)]
    assert not torch.equal(many[0], many[1])
    torch.testing.assert_close(torch.stack(many).mean(0), plain, atol=0.12, rtol=0)


def test_sequences_of_other_lengths_drop_other_weights():
    """With the same inputs, what the first chunks read differs by what was dropped."""
    settings = replace(OURS, chunk=8)
    masks = []
    original = lsh.mix

    def seen(*parts):
        masks.append(parts)
        return original(*parts)

    q, kv = drawn(64 + 80)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lsh, "mix", seen)
        lsh_attention(q, kv, (64, 80), settings, dropout=Dropout(0.5))
    drawn_at = [parts for parts in masks if len(parts) == 4]
    assert len(drawn_at) > 1
    assert len(set(drawn_at)) == len(drawn_at)


def test_settings_that_make_no_sense():
    for wrong in ({"chunk": 0}, {"rounds": 0}, {"probes": 0}, {"hash": "md5"}, {"probes": 2}):
        with pytest.raises(UsageError, match="--lsh-"):
            LshConfig(**wrong)
