"""Options and arguments that several commands share, their completion by a shell, and output as a
table or as JSON. ``road --install-completion`` installs the completion.
"""

from __future__ import annotations

import glob
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from road_ray.config.schema import at, is_section
from road_ray.config.yaml_files import DATA_SUFFIXES
from road_ray.presets import PRESETS
from road_ray.reporting.text_tables import aligned
from road_ray.verbs import CONFIGURABLE, configuration_class, keys_of


def complete_preset(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the presets of the verb; of all verbs for other commands."""
    verb = ctx.params.get("verb") or ctx.info_name
    presets = [p for p in PRESETS.values() if p.verb == verb] or list(PRESETS.values())
    return [(p.name, p.about) for p in presets if p.name.startswith(incomplete)]


def complete_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return keys of the verb with ``=``, and YAML files for the first word."""
    verb = str(ctx.params.get("verb") or ctx.info_name)
    kind, is_first = configuration_class(verb), not ctx.params.get("arguments")
    files = sorted(glob.glob(f"{glob.escape(incomplete)}*.y*ml")) if is_first else []
    keys = (key for key in keys_of([verb]) if not is_section(at(kind, tuple(key.split("."))) or {}))
    return [*files, *(f"{key}=" for key in keys if f"{key}=".startswith(incomplete))]


def complete_key(incomplete: str) -> list[str]:
    """Return the keys of all verbs."""
    return [key for key in keys_of(CONFIGURABLE) if key.startswith(incomplete)]


def argument(metavar: str, help: str, completed: Any = lambda: []) -> Any:
    """Return an argument of a command that a shell completes: by names of files and directories
    where nothing is offered, as by default.
    """
    return typer.Argument(metavar=metavar, help=help, autocompletion=completed)


def _set_level(flag: typer.CallbackParam, is_set: bool) -> bool:
    if is_set and flag.name == "verbose":
        logging.getLogger().setLevel(logging.INFO)  # libraries too
    if is_set:
        level = logging.DEBUG if flag.name == "verbose" else logging.WARNING
        logging.getLogger("road_ray").setLevel(level)
    return is_set


JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]
PresetOption = Annotated[
    str | None,
    typer.Option("--preset", help="start from a named preset", autocompletion=complete_preset),
]
ModelArgument = Annotated[str, argument("MODEL", "run directory, model directory or hub name")]
QuietOption = Annotated[bool, typer.Option("-q", callback=_set_level, help="no progress output")]
VerboseOption = Annotated[
    bool, typer.Option("-v", callback=_set_level, help="show library logs and tracebacks")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="number of Ray Train workers; 0: this process")
]
GpusOption = Annotated[
    float | None, typer.Option("--gpus-per-worker", help="number of GPUs per worker")
]
SeedOption = Annotated[
    int | None, typer.Option(help="random seed of weights, data order and masks")
]
AddressOption = Annotated[
    str | None, typer.Option("--address", help="address of a running Ray cluster")
]


def is_override(word: str) -> bool:
    """Return True for ``key=value``. A file may have ``=`` in its name or in that of a folder."""
    key, equals, _ = word.partition("=")
    return bool(equals) and "/" not in key and not Path(word).is_file()


def show_list(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Print rows as an aligned table, or as one JSON list."""
    tell(rows, as_json, aligned(rows))


def tell(summary: object, as_json: bool, *lines: object) -> None:
    """Print a result as JSON, or as lines of text."""
    for line in [json.dumps(summary)] if as_json else lines:
        typer.echo(line)


def _is_model(name: str) -> bool:
    """Return True for a run or model directory, a list of teachers or a name of the hub."""
    path = Path(name)
    is_data = path.is_file() or path.suffix in (".yaml", ".yml", *DATA_SUFFIXES)
    return path.is_dir() or path.name == "teachers.json" or not is_data


def sources_of(
    words: Sequence[str], *, word: str = "", file: str = "", **flags: object
) -> tuple[Path | None, list[str]]:
    """Return the YAML file and the overrides in the words after a verb. The first word is the file
    unless it is an override, or the value of the key ``word``; of a verb with a key ``file``, a
    further file is its value. Flags are the last overrides; those that are None are left out.
    """
    if file:
        plain = [name for name in words if not is_override(name)]
        models = [name for name in plain if _is_model(name)]
        others = [name for name in plain if name not in models[:1]]
        data = [name for name in others if Path(name).suffix not in (".yaml", ".yml")]
        flags |= {word: models[0]} if models else {}
        flags |= {file: data[0]} if data else {}
        words = [name for name in words if name not in (*models[:1], *data[:1])]
    elif word and words:
        first, *others = words
        if not (is_override(first) or Path(first).suffix):
            flags[word], words = first, others
    path = Path(words[0]) if words and not is_override(words[0]) else None
    flag_overrides = [f"{key}={value}" for key, value in flags.items() if value is not None]
    return path, [*(words if path is None else words[1:]), *flag_overrides]
