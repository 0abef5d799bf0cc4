"""A language model answers questions that share a passage as if each were asked alone."""

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from experiments.models.language_model_teacher import tree

PASSAGE = [5, 9, 31, 7, 7, 12]
QUESTIONS = [[3, 4, 40], [8], [3, 17, 2, 21, 30]]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=48,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return Qwen2ForCausalLM(config).eval()


def test_questions_about_one_passage_do_not_see_each_other(model):
    token_1T, position_1T, seen_11TT, end_B = tree(PASSAGE, QUESTIONS)
    with torch.inference_mode():
        together = model(
            input_ids=token_1T, position_ids=position_1T, attention_mask=seen_11TT
        ).logits[0, end_B]
        for question, logit_V in zip(QUESTIONS, together, strict=True):
            alone_V = model(input_ids=torch.tensor([PASSAGE + question])).logits[0, -1]
            assert torch.allclose(logit_V, alone_V, atol=1e-5)


def test_without_the_mask_they_would(model):
    token_1T, position_1T, _, end_B = tree(PASSAGE, QUESTIONS)
    with torch.inference_mode():
        together = model(input_ids=token_1T, position_ids=position_1T).logits[0, end_B]
        alone_V = model(input_ids=torch.tensor([PASSAGE + QUESTIONS[-1]])).logits[0, -1]
    assert not torch.allclose(together[-1], alone_V, atol=1e-3)
