"""Secrets are masked by key and by value; the words of the trade are not."""

from __future__ import annotations

import pytest

from road_ray.training.monitoring.redaction import MASK, redact

KEYS = """
hf_token HF_TOKEN hfToken token password client_secret api_key apiKey api-key aws_access_key
credentials passphrase Authorization
"""


@pytest.mark.parametrize("key", KEYS.split())
def test_a_telling_key_hides_its_value_at_any_depth(key):
    assert redact({"a": [{"b": {key: "canary-1"}}]}) == {"a": [{"b": {key: MASK}}]}


def test_everything_below_a_telling_key_is_hidden():
    given = {"credentials": {"user": "someone", "both": ["canary-1", "canary-2"]}}
    assert redact(given) == {"credentials": {"user": MASK, "both": [MASK, MASK]}}


def test_the_same_value_is_hidden_wherever_it_stands():
    given = {"token": "canary-1", "url": "https://x/?t=canary-1&b=2", "argv": ("--x", "canary-1")}
    assert redact(given) == {
        "token": MASK,
        "url": f"https://x/?t={MASK}&b=2",
        "argv": ["--x", MASK],
    }


def test_a_secret_of_the_environment_is_hidden(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "canary-from-outside")
    assert redact({"note": "is canary-from-outside."}) == {"note": f"is {MASK}."}


def test_known_shapes_are_hidden_without_a_key():
    hub = "hf_" + "a1B2" * 8
    given = {"a": f"x {hub}", "b": "http://me:canary@host/x", "c": "--hub.token=canary-1 --lr=1"}
    assert redact(given) == {
        "a": f"x {MASK}",
        "b": f"http://{MASK}@host/x",
        "c": f"--hub.token={MASK} --lr=1",
    }


def test_words_of_the_trade_stay():
    given = {
        "tokenizer": "google/electra-small-discriminator",
        "pad_token": "[PAD]",
        "mask_token": "[MASK]",
        "max_length_tokens": 128,
        "seed": 1,
        "shuffle": True,
        "nothing": None,
        "learning_rate": 5e-5,
    }
    assert redact(given) == given


def test_a_short_secret_does_not_blot_out_other_text():
    assert redact({"password": "a", "name": "alpha"}) == {"password": MASK, "name": "alpha"}


def test_the_given_mapping_is_left_as_it_was():
    given = {"a": {"token": "canary-1"}}
    redact(given)
    assert given == {"a": {"token": "canary-1"}}
