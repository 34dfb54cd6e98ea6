"""Secrets are masked by key and by value; the words of the trade are not."""

from __future__ import annotations

import pytest

from road_ray.training.monitoring.redaction import MASK, redact

KEYS = """
hf_token HF_TOKEN hfToken token password client_secret api_key apiKey api-key aws_access_key
credentials passphrase Authorization
"""
HUB = "hf_" + "a1B2" * 8
WORDS = {
    "tokenizer": "google/electra-small-discriminator",
    "pad_token": "[PAD]",
    "mask_token": "[MASK]",
    "max_length_tokens": 128,
    "shuffle": True,
    "nothing": None,
    "learning_rate": 5e-5,
}


@pytest.mark.parametrize("key", KEYS.split())
def test_a_telling_key_hides_its_value_at_any_depth(key):
    given = {"a": [{"b": {key: "canary-1"}}]}
    assert redact(given) == {"a": [{"b": {key: MASK}}]}
    assert given["a"][0]["b"][key] == "canary-1"


@pytest.mark.parametrize(
    ("given", "masked"),
    [
        (
            {"credentials": {"a": "x", "b": ["1", "2"]}},
            {"credentials": {"a": MASK, "b": [MASK] * 2}},
        ),
        (
            {"token": "canary-1", "argv": ("--x", "canary-1")},
            {"token": MASK, "argv": ["--x", MASK]},
        ),
        (
            {"token": "canary-1", "url": "//x?t=canary-1&b"},
            {"token": MASK, "url": f"//x?t={MASK}&b"},
        ),
        ({"note": "is canary-outside."}, {"note": f"is {MASK}."}),  # of the environment
        ({"a": f"x {HUB}"}, {"a": f"x {MASK}"}),
        ({"b": "http://me:canary@host/x"}, {"b": f"http://{MASK}@host/x"}),
        ({"c": "--hub.token=canary-1 --lr=1"}, {"c": f"--hub.token={MASK} --lr=1"}),
        ({"password": "a", "name": "alpha"}, {"password": MASK, "name": "alpha"}),
        (WORDS, WORDS),
    ],
)
def test_secrets_are_hidden_wherever_they_stand_and_words_of_the_trade_stay(
    monkeypatch, given, masked
):
    monkeypatch.setenv("SOME_API_KEY", "canary-outside")
    assert redact(given) == masked
