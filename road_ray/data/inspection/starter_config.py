"""YAML file of a guess, with comments and the schema line for editors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from road_ray.config.write import comment
from road_ray.data.inspection.data_files import Source
from road_ray.data.inspection.task_guess import Guess
from road_ray.system.json_file import read_json

_FILES = ("train", "dev", "test")
_FEW_ROWS = 2000
_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*")
_RESERVED = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def verb_of(guess: Guess) -> str:
    """Return the verb that trains on the data."""
    return "pretrain" if guess.kind == "corpus" else "finetune"


def starter_yaml(guess: Guess, output: Path, init: str, schema_name: str, place: str) -> str:
    """Return the YAML file for a guess, whose paths are relative to the folder of ``output``."""
    verb, name = verb_of(guess), set_name(guess)
    lines = [
        f"# yaml-language-server: $schema={schema_name}",
        *comment(f"Written by `road init` for {place}. Train: road {verb} {output}"),
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


def _model_config(init: str) -> dict[str, Any]:
    """Return the ``config.json`` of a run or model directory; empty for a name of the hub."""
    place = Path(init).expanduser()
    for path in (place / "hf" / "config.json", place / "config.json"):
        if path.is_file():
            return read_json(path)
    return {}


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
        yield "  warmup_steps: 1000"
        yield "training:"
        yield "  steps: 10000"
    else:
        yield "# ELECTRA for a laptop, from new weights; `road presets` lists the published sizes."
        yield "preset: tiny_electra"
    yield f"run_dir: {_scalar(f'runs/{name}')}"
    yield "data:"
    yield "  # .txt has a blank line between documents; .jsonl and .parquet have a column `text`."
    yield f"  corpus: {_corpus_place(guess.source, output)}"
    if not init:
        yield "  # Number of entries of the tokenizer that is trained on the text."
        yield "  vocab_size: 8192"


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
    "dev_fraction": ("Part of the training rows that is held out to evaluate on.",),
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
