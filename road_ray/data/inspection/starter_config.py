"""YAML file of a guess, with a comment for each key and the schema line for editors."""

import os
import re
import shlex
from pathlib import Path
from typing import Any

from road_ray.config import Config
from road_ray.config.schema import at, meaning_of
from road_ray.config.yaml_files import comment, plain_yaml
from road_ray.data.inspection.data_files import Guess
from road_ray.data.inspection.guess import DEFAULT_LIMIT
from road_ray.system.files import read_json

_EPOCHS = 3  # of a text for pre-training
_MOST_STEPS = 10_000
_CHARACTERS_PER_TOKEN = 4.2  # of a WordPiece tokenizer of 8,192 entries on English text
_ROW_TOKENS, _FURTHER_BATCH, _NEW_BATCH = 128, 32, 16
_FEW_ROWS = 2000
_WIDTHS = {"small": 256, "base": 768, "large": 1024}  # of ELECTRA


def verb_of(guess: Guess) -> str:
    """Return the verb that trains on the data."""
    return "pretrain" if guess.kind == "corpus" else "finetune"


def set_name(guess: Guess) -> str:
    """Return the name of the data set, from the name of its file."""
    from road_ray.data.catalog import DATASETS, TASKS

    name = re.sub(r"[^\w.-]+", "_", guess.name).strip("._-")[:77] or "mine"
    return f"my_{name}" if name in DATASETS or name in TASKS else name


def starter_yaml(
    guess: Guess, output: Path, init: str, config: type[Config], schema_name: str, place: str
) -> str:
    """Return the YAML file for a guess, whose paths are relative to the folder of ``output``;
    ``config`` is the class of its keys.
    """
    verb = verb_of(guess)
    values = (_pretrain if verb == "pretrain" else _finetune)(guess, output, init)
    train = shlex.join(["road", verb, str(output)])
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
    key: tuple[str, ...] = ()
    for line in plain_yaml(values, allow_unicode=True).splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        key = (*key[: len(indent) // 2], line.strip().partition(":")[0])
        if node := at(config, key):  # its first sentence, above it
            about = re.split(r"(?<=\.) |: ", meaning_of(node))[0].rstrip(".")
            lines += comment(about, indent)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _finetune(guess: Guess, output: Path, init: str) -> dict[str, Any]:
    """Return the keys of a fine-tuning."""
    name, entry = set_name(guess), dict(guess.entry)
    if guess.hub is None:
        entry |= {key: _path(place, output) for key, place in guess.splits.items()}
    # Few rows are read more often, as ELECTRA reads RTE and STS-B.
    epochs = 10 if guess.num_rows < _FEW_ROWS else 2 if guess.kind == "span" else 3
    length = guess.max_length_tokens
    data = {
        "dataset": name,
        **({} if length is None else {"max_length_tokens": length}),
        "batch_size": 32,
        "epochs": epochs,
        "sets": {name: entry},
    }
    config = _model_config(init)
    family = str(config.get("model_type") or init).lower()
    width = config.get("hidden_size") or next((w for s, w in _WIDTHS.items() if s in family), 256)
    if "electra" not in family:
        rate, decay, why = 5e-5, 1.0, "BERT's, 2e-5 to 5e-5 (Devlin et al. 2019)"
    else:
        rate, decay = (3e-4, 0.8) if width < 768 else (1e-4, 0.8) if width < 1024 else (5e-5, 0.9)
        why = "ELECTRA's, small 3e-4, base 1e-4, large 5e-5 (Clark et al. 2020)"
    guess.reasons.append(f"peak_lr: {why}")
    optimizer = {"peak_lr": rate, "layer_decay": decay}
    return {"init": init, "run_dir": f"runs/{name}", "data": data, "optimizer": optimizer}


def longest_row(init: str) -> int:
    """Return the number of tokens that a model takes, as its configuration says; 512 if it is
    neither here nor in the cache of the hub.
    """
    positions = _model_config(init).get("max_position_embeddings")
    if not isinstance(positions, int) or positions < 8:
        return DEFAULT_LIMIT
    return positions // 8 * 8  # RoBERTa has 514 for 512 tokens


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


def _pretrain(guess: Guess, output: Path, init: str) -> dict[str, Any]:
    """Return the keys of a pre-training: three epochs of its text, at most 10,000 steps."""
    batch_size = _FURTHER_BATCH if init else _NEW_BATCH
    steps, about = _MOST_STEPS, "as the size of the text is not known"
    if guess.num_characters is not None:
        rows = max(1.0, guess.num_characters / _CHARACTERS_PER_TOKEN / _ROW_TOKENS)
        steps = min(max(10, 10 * round(_EPOCHS * rows / batch_size / 10)), _MOST_STEPS)
        about = f"{steps * batch_size / rows:.2g} epochs of about {rows:,.0f} rows"
    guess.reasons.append(f"steps: {steps:,} of {batch_size} rows of {_ROW_TOKENS} tokens, {about}")
    if init:
        electra = "electra" in str(_model_config(init).get("model_type") or init).lower()
        start: dict[str, Any] = {
            "init": init,
            "encoder": {"family": "init"},
            "objective": {"name": "mlm"},
            "optimizer": {"peak_lr": 1e-4 if electra else 5e-5, "warmup_steps": steps // 10},
        }
    else:
        start = {"preset": "tiny_electra", "optimizer": {"warmup_steps": min(200, steps // 10)}}
    hub = guess.hub
    if hub is None:
        place = _path(guess.splits["train"], output)
    else:
        place = ":".join(filter(None, ("hub", hub.path, hub.configuration)))
    data = {"corpus": place, "batch_size": batch_size, **({} if init else {"vocab_size": 8192})}
    start |= {"training": {"steps": steps}, "run_dir": f"runs/{set_name(guess)}"}
    return start | {"data": data}


def _path(place: str, output: Path) -> str:
    """Return a path, relative to the folder of ``output`` if it is below it."""
    folder = Path(os.path.abspath(output)).parent
    path = Path(os.path.abspath(place))
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)
