"""YAML file of a guess, with comments and the schema line for editors."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from road_ray.config.write import comment
from road_ray.data.inspection.data_files import MOST_CHARACTERS, Source
from road_ray.data.inspection.task_guess import DEFAULT_LIMIT, Guess
from road_ray.system.json_file import read_json

_FILES = ("train", "dev", "test")
_EPOCHS = 3  # of a text for pre-training
_MOST_STEPS = 10_000
_CHARACTERS_PER_TOKEN = 4.2  # of a WordPiece tokenizer of 8,192 entries on English text
_ROW_TOKENS, _FURTHER_BATCH, _NEW_BATCH = 128, 32, 16
_FEW_ROWS = 2000
# Families whose positions count from behind the padding index.
_BEHIND_PADDING = (
    "roberta",
    "xlm-roberta",
    "camembert",
    "mpnet",
    "longformer",
    "roberta-prelayernorm",
)
_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*")
_RESERVED = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def verb_of(guess: Guess) -> str:
    """Return the verb that trains on the data."""
    return "pretrain" if guess.kind == "corpus" else "finetune"


def starter_yaml(guess: Guess, output: Path, init: str, schema_name: str, place: str) -> str:
    """Return the YAML file for a guess, whose paths are relative to the folder of ``output``."""
    verb, name = verb_of(guess), set_name(guess)
    train = shlex.join(["road", verb, str(output)])
    add_steps(guess, init)
    lines = [
        f"# yaml-language-server: $schema={schema_name}",
        *comment(f"Written by `road init` for {place}. Train: {train}"),
        *comment(
            f"Editors complete and check this file by the schema of the first line. `road explain "
            f"KEY` explains a key, `road presets` lists recipes, `road schema {verb}` has all keys."
        ),
        "#",
        "# What was guessed:",
        *(line for reason in guess.reasons for line in comment(f"- {reason}")),
        "",
    ]
    write = _corpus if verb == "pretrain" else _finetune
    body = write(guess, output, init, name)
    return "\n".join([*lines, *body]) + "\n"


def set_name(guess: Guess) -> str:
    """Return the name of the data set, from the name of its file."""
    name = re.sub(r"[^\w.-]+", "_", guess.source.name).strip("._-")[:80]
    from road_ray.data.catalog import DATASETS, TASKS

    name = name or "mine"
    return f"my_{name}"[:80] if name in DATASETS or name in TASKS else name


def _finetune(guess: Guess, output: Path, init: str, name: str) -> Iterator[str]:
    yield "# Model to start from: a run, a model directory or a name on the Hugging Face hub."
    yield f"init: {_scalar(init)}"
    yield f"run_dir: {_scalar(f'runs/{name}')}"
    yield "data:"
    yield f"  dataset: {_scalar(name)}"
    if guess.max_length_tokens is not None:
        yield "  # Longer texts are cut, longer contexts are read in windows."
        yield f"  max_length_tokens: {guess.max_length_tokens}"
    yield "  batch_size: 32"
    epochs = 2 if guess.kind == "span" else 3
    if guess.num_rows < _FEW_ROWS:
        epochs = 10
        yield "  # Few rows are read more often, as ELECTRA does on RTE and STS-B."
    yield f"  epochs: {epochs}"
    yield "  sets:"
    yield f"    {_scalar(name)}:"
    for key, value in guess.entry.items():
        yield from (f"      # {line}" for line in _ABOUT.get(key, ()))
        yield f"      {key}: {_value(key, value, output, hub='hub' in guess.entry)}"
    rate, decay, why = _rates(init)
    yield "optimizer:"
    yield f"  # {why}"
    yield f"  peak_lr: {rate}"
    yield "  # Factor of the rate from a layer to the one below it."
    yield f"  layer_decay: {decay}"


def _rates(init: str) -> tuple[str, str, str]:
    """Return learning rate, layer decay and their source, by family and width of ``init``."""
    config, family = _model_config(init), _model_type(init)
    if "electra" not in family:
        return "5e-5", "1.0", "BERT's rate: 2e-5 to 5e-5 (Devlin et al. 2019)."
    sizes = {"small": 256, "base": 768, "large": 1024}
    width = config.get("hidden_size") or next((w for s, w in sizes.items() if s in family), 256)
    why = "ELECTRA's rate: small models 3e-4, base-sized 1e-4, large 5e-5 (Clark et al. 2020)."
    if width < sizes["base"]:
        return "3e-4", "0.8", why
    return ("1e-4", "0.8", why) if width < sizes["large"] else ("5e-5", "0.9", why)


def longest_row(init: str) -> int:
    """Return the number of tokens that a model takes, as its configuration says; 512 if it is
    neither here nor in the cache of the hub.
    """
    config = _model_config(init)
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int) or positions < 8:
        return DEFAULT_LIMIT
    from_behind_padding = config.get("model_type") in _BEHIND_PADDING
    return positions - (int(config.get("pad_token_id") or 0) + 1) * from_behind_padding


def _model_config(init: str) -> dict[str, Any]:
    """Return the ``config.json`` of a run, a model directory, or a model of the hub that is in its
    cache; empty for others.
    """
    place = Path(init).expanduser()
    for path in (place / "hf" / "config.json", place / "config.json"):
        if path.is_file():
            return read_json(path)
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(init, "config.json")
    except HFValidationError:  # no name of the hub
        return {}
    return read_json(Path(cached)) if isinstance(cached, str) else {}


def _model_type(init: str) -> str:
    """Return the family of a model in lower case, or its name where nothing tells the family."""
    return str(_model_config(init).get("model_type") or init).lower()


def _corpus(guess: Guess, output: Path, init: str, name: str) -> Iterator[str]:
    if init:
        yield "# Goes on from this model: its tokenizer, family and sizes."
        yield f"init: {_scalar(init)}"
        yield "encoder:"
        yield "  family: init"
        yield "objective:"
        yield "  name: mlm"
        electra = "electra" in _model_type(init)
        yield "optimizer:"
        yield "  # Further training has a smaller rate than new weights, and a short warm-up."
        yield f"  peak_lr: {'1e-4' if electra else '5e-5'}"
        yield f"  warmup_steps: {guess.steps // 10}"
    else:
        yield "# ELECTRA for a laptop, from new weights; `road presets` lists the published sizes."
        yield "preset: tiny_electra"
        yield "optimizer:"
        yield f"  warmup_steps: {min(200, guess.steps // 10)}"
    yield "training:"
    yield f"  steps: {guess.steps}"
    yield f"run_dir: {_scalar(f'runs/{name}')}"
    yield "data:"
    yield "  # .txt has a blank line between documents; .jsonl and .parquet have a column `text`."
    yield f"  corpus: {_corpus_place(guess.source, output)}"
    yield f"  batch_size: {_FURTHER_BATCH if init else _NEW_BATCH}"
    if not init:
        yield "  # Number of entries of the tokenizer that is trained on the text."
        yield "  vocab_size: 8192"


def add_steps(guess: Guess, init: str) -> None:
    """Set the number of steps of a pre-training: three epochs of its text, at most 10,000."""
    if guess.kind != "corpus" or guess.steps:
        return
    guess.steps, characters = _MOST_STEPS, guess.source.num_characters
    if characters is None:
        guess.reasons.append(f"steps: {_MOST_STEPS:,}, as the size of the text is not known")
        return
    batch_size = _FURTHER_BATCH if init else _NEW_BATCH
    rows = max(1.0, characters / _CHARACTERS_PER_TOKEN / _ROW_TOKENS)
    steps = max(10, 10 * round(_EPOCHS * rows / batch_size / 10))
    guess.steps = min(steps, _MOST_STEPS)
    epochs = f"{_EPOCHS} epochs"
    if guess.steps < steps:
        about = "at most " if characters >= MOST_CHARACTERS else ""
        epochs = f"{about}{guess.steps * batch_size / rows:.2g} epochs"
    guess.reasons.append(
        f"steps: {guess.steps:,} of {batch_size} rows, {epochs} of about {rows:,.0f} rows of "
        f"{_ROW_TOKENS} tokens"
    )


def _corpus_place(source: Source, output: Path) -> str:
    """Return the value of ``data.corpus``: a path, or ``hub:NAME:CONFIGURATION``."""
    if source.hub is None:
        return _path(source.splits["train"], output)
    name, configuration = source.hub
    if Path(name).is_dir():
        return _path(name, output)
    return _scalar(":".join(filter(None, ("hub", name, configuration))))


_ABOUT = {
    "kind": ("classify (the default), regress, span, tag or choose.",),
    "text": ("Columns of the text: one, or two of a pair.",),
    "labels": ("All labels, in the order of the logits.",),
    "label_map": ("Value in the file: the label that it stands for.",),
    "dev_fraction": (
        "Part of the training rows that is held out to evaluate on; `dev: FILE` replaces it.",
    ),
    "hub": ("Data set on the hub; train, dev and test are its splits.",),
    "first_rows": (
        "A run trains and evaluates on these first rows of each split, not on all of it:",
        "remove the key for the whole data set, which is then downloaded.",
    ),
}


def _value(key: str, value: Any, output: Path, *, hub: bool) -> str:
    if key in _FILES and not hub:
        return _path(value, output)
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(k)}: {_scalar(v)}" for k, v in value.items()) + "}"
    return _scalar(value)


def _path(place: str, output: Path) -> str:
    """Return a path as YAML, relative to the folder of ``output`` if it is below it."""
    folder = Path(os.path.abspath(output)).parent
    path = Path(os.path.abspath(place))
    return _scalar(str(path.relative_to(folder) if path.is_relative_to(folder) else path))


def _scalar(value: object) -> str:
    """Return a plain value as YAML on one line."""
    text = str(value)
    if isinstance(value, str) and not (_PLAIN.fullmatch(text) and text.lower() not in _RESERVED):
        return json.dumps(text, ensure_ascii=False)
    return text
