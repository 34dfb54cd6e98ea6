"""``road init``, ``road presets``, ``road schema`` and ``road explain``: what may be configured."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from road_ray.cli.options import JsonOption, complete_key, complete_preset, show_list, tell
from road_ray.config import flatten, json_schema, to_dict
from road_ray.config import schema as nodes
from road_ray.config.messages import nearest_keys
from road_ray.config.schema import UNSET, Key, format_value
from road_ray.errors import ConfigError
from road_ray.presets import PRESETS, get_preset
from road_ray.system.files import check_new, write_atomic
from road_ray.verbs import (
    CONFIGURABLE,
    VERBS,
    configuration_class,
    configure,
    keys_of,
    preset_config,
)

if TYPE_CHECKING:
    from road_ray.data.inspection.data_files import Guess


_INIT = "google/electra-small-discriminator"


def init(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FOLDER|hub:NAME",
            help="CSV, TSV, JSONL, JSON, Parquet, Arrow, SQuAD JSON, CoNLL or text",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(help="YAML file to write; default: named after the data")
    ] = None,
    label: Annotated[str | None, typer.Option(help="column of the label")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="column of the text; twice for a pair")
    ] = None,
    kind: Annotated[
        Literal["classify", "multi", "regress"] | None, typer.Option(help="task")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--init", help=f"model to start from; default: {_INIT}; plain text needs none"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Guess the task of your data and write a configuration for it."""
    from road_ray.data.inspection.guess import guess
    from road_ray.data.inspection.starter_config import longest_row, set_name, starter_yaml, verb_of

    if output is not None:
        output = check_new(output)
    task_guess = guess(
        source, text=text or (), label=label, kind=kind, limit=longest_row(model or _INIT)
    )
    verb = verb_of(task_guess)
    place = output or Path(f"{set_name(task_guess)}.yaml")
    check_new(place)
    chosen = model or (_INIT if verb == "finetune" else "")
    config = VERBS[verb].config
    content = starter_yaml(task_guess, place, chosen, config, schema_name(verb), source)
    rows = _write(place, content, verb, task_guess)
    command = shlex.join(["road", verb, str(place)])
    entry = {"output": str(place), "command": command, "kind": task_guess.kind, "rows": rows}
    told = [f"  {line}" for line in [*task_guess.reasons, *([f"rows: {rows}"] if rows else [])]]
    told += [f"written: {place}, and {schema_name(verb)} for editors", f"next: {command}"]
    tell(entry | {"reasons": task_guess.reasons}, as_json, *told)


def _write(place: Path, content: str, verb: str, task_guess: Guess) -> str:
    """Write the file and its schema if the file loads and all of its rows are valid. Return the
    number of rows of its splits.
    """
    from road_ray.data.encode_examples import check_labels
    from road_ray.data.load_split import find_dataset, read_examples, root_of

    beside = place.parent / f".{place.name}.partial"  # its paths are relative to this place
    try:
        write_atomic(beside, content)
        config: Any = configure(verb, path=beside)
        counts = []
        for name in getattr(config.data, "sets", ()) if task_guess.hub is None else ():
            entry, task = find_dataset(name, config.data)
            for split in ("train", "dev"):
                examples = read_examples(entry, split, root_of(name, config.data))
                check_labels(examples, entry, task)
                counts.append(f"{len(examples):,}")
        schema = place.with_name(schema_name(verb))
        if not schema.exists():
            write_atomic(schema, schema_text(verb))
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)
    return f"{counts[0]} to train on, {counts[1]} to evaluate on" if counts else ""


_WIDTH = 100


def presets(
    name: Annotated[
        str | None, typer.Argument(help="preset to show as YAML", autocompletion=complete_preset)
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="YAML file to write, with its editor schema beside it")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the presets, or print the YAML file of one."""
    if name is None:
        rows = [{"name": p.name, "verb": p.verb, "about": p.about} for p in PRESETS.values()]
        show_list(rows, as_json)
        return
    chosen = get_preset(name)
    if output is not None:
        output = check_new(output)
        schema(chosen.verb, output.with_name(schema_name(chosen.verb)))
        write_file(output, chosen.text)
        typer.echo(f"next: {shlex.join(['road', chosen.verb, str(output)])}")
    elif as_json:
        row = {"name": name, "verb": chosen.verb, "about": chosen.about}
        typer.echo(json.dumps(row | {"config": to_dict(preset_config(chosen.name))}))
    else:
        typer.echo(chosen.text, nl=False)


def schema(
    verb: Annotated[str, typer.Argument(help="verb, sweep or submit")],
    output: Annotated[
        Path | None, typer.Option(help="file to write; default: standard output")
    ] = None,
) -> None:
    """Print the JSON schema of a verb's configuration, for editors."""
    if output is None:
        typer.echo(schema_text(verb), nl=False)
        return
    write_file(output, schema_text(verb))


def schema_text(verb: str) -> str:
    """Return the JSON schema of the configuration of a verb, of sweep files or cluster files."""
    names = [p.name for p in PRESETS.values() if p.verb == verb]
    return json.dumps(json_schema(configuration_class(verb), names), indent=1) + "\n"


def schema_name(verb: str) -> str:
    """Return the name of a schema file beside configurations of a verb."""
    return f"{verb}.schema.json"


def write_file(path: Path, text: str) -> None:
    """Write a file and print its path."""
    write_atomic(path.expanduser(), text)
    typer.echo(path)


def explain(
    key: Annotated[
        str,
        typer.Argument(
            help="key or section, such as optimizer.peak_lr", autocompletion=complete_key
        ),
    ],
    verb: Annotated[
        str | None, typer.Argument(help="verb; default: all verbs with that key")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Explain a configuration key: values, default, meaning, presets."""
    verbs = [verb] if verb else CONFIGURABLE
    found = explanations(tuple(key.split(".")), verbs)
    if not found:
        near = nearest_keys(key, keys_of(verbs))[:5]
        fix = f"  nearest: {', '.join(near)}\n  fix: road explain {near[0]}" if near else ""
        raise ConfigError(
            f"{key}: no such configuration key{f' of `road {verb}`' if verb else ''}\n"
            + (fix or "  fix: `road schema VERB` has all keys of a verb")
        )
    tell(found, as_json, "\n\n".join(map(_text, found)))


def explanations(key: Key, verbs: Iterable[str]) -> list[dict[str, Any]]:
    """Return one explanation for each meaning that a key has in the verbs."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for verb in verbs:
        if (node := nodes.at(configuration_class(verb), key)) is None:
            continue
        allowed, meaning = nodes.allowed(node), nodes.meaning_of(node)
        keys = {name: nodes.meaning_of(below) for name, below in nodes.properties(node).items()}
        told = {"key": nodes.format_key(key), "allowed": allowed, "meaning": meaning, "keys": keys}
        same = found.setdefault((allowed, meaning), told | {"default": {}})
        same["default"][verb] = nodes.default_of(node)
    for same in found.values():
        presets = [preset for preset in PRESETS.values() if preset.verb in same["default"]]
        values = {p.name: flatten(p.values()).get(".".join(map(str, key))) for p in presets}
        same["presets"] = {name: value for name, value in values.items() if value is not None}
    return list(found.values())


def values_with_names(values: Mapping[str, object], *, shared: bool = False) -> str:
    """Return each value with its names: ``0.0005 (pretrain); 0.0003 (distill, teachers)``; with
    ``shared`` a single value without them.
    """
    names_of: dict[str, list[str]] = {}
    for name, value in values.items():
        text = str(UNSET) if value is UNSET else format_value(value)
        names_of.setdefault(text, []).append(name)
    if shared and len(names_of) == 1:
        return next(iter(names_of))
    return "; ".join(f"{value} ({', '.join(names)})" for value, names in names_of.items())


def _text(explanation: Mapping[str, Any]) -> str:
    keys, default = explanation["keys"], explanation["default"]
    rows = {
        "verbs": ", ".join(default),
        "allowed": explanation["allowed"],
        "default": "" if keys else values_with_names(default, shared=True),
        "meaning": explanation["meaning"],
        "presets": values_with_names(explanation["presets"]),
    }
    lines = [explanation["key"]]
    wrapped = partial(textwrap.wrap, width=_WIDTH, break_on_hyphens=False, break_long_words=False)
    for label, text in rows.items():
        start = f"  {label}:".ljust(12)
        lines += wrapped(text, initial_indent=start, subsequent_indent=" " * len(start))
    width = max(map(len, keys), default=0)
    lines += ["  keys:"] if keys else []
    for name, meaning in keys.items():
        shown = textwrap.shorten(meaning, _WIDTH - width - 6, placeholder=" ...")
        lines.append(f"    {name:<{width}}  {shown}")
    return "\n".join(lines)
