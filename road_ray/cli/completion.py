"""Shell completion: presets, keys with their values, data sets, YAML files and run directories.

``road --install-completion`` installs it. It loads configuration classes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import typer

_RECORDS = ("config.resolved.yaml", "sweep.resolved.yaml", "hf")  # marks of a run directory
_DATASETS = ("dataset", "datasets", "evaluate_on", "probe_on")
_RUNS = ("init", "distillation.teachers", "generator.init")


def complete_preset(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the presets of the verb; of all verbs for other commands."""
    from road_ray.presets import PRESETS

    verb = ctx.params.get("verb") or ctx.info_name
    presets = [p for p in PRESETS.values() if p.verb == verb] or list(PRESETS.values())
    return [(p.name, p.about) for p in presets if p.name.startswith(incomplete)]


def complete_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return YAML files, keys with ``=``, and the values that a key may have."""
    verb = str(ctx.params.get("verb") or ctx.info_name)
    before = [str(word) for word in ctx.params.get("arguments") or ()]
    return _words(verb, before, incomplete)


def complete_sweep(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return shipped search spaces and YAML files, then keys of a sweep."""
    before = [str(word) for word in ctx.params.get("arguments") or ()]
    if before:
        return _words("sweep", before, incomplete)
    from road_ray.recipes.sweep.config import shipped

    return [*_starting(shipped(), incomplete), *_files(incomplete)]


def complete_peek(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return data sets, YAML files and runs, then keys of data."""
    before = [str(word) for word in ctx.params.get("arguments") or ()]
    if before:
        return _words("finetune", before, incomplete)
    return [*_starting(_datasets(()), incomplete), *_files(incomplete), *complete_run(incomplete)]


def complete_key(incomplete: str) -> list[str]:
    """Return the keys of all verbs."""
    from road_ray.verbs import CONFIGURABLE, keys_of

    return _starting(keys_of(CONFIGURABLE), incomplete)


def complete_run(incomplete: str) -> list[str]:
    """Return run directories, and folders on the way to them."""
    folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    paths = []
    for path in _entries(folder):
        if path.is_dir() and not path.name.startswith("."):
            is_run = any((path / name).exists() for name in _RECORDS)
            paths.append(str(path) if is_run else f"{path}/")
    return _starting(paths, incomplete)


def _words(verb: str, before: Sequence[str], incomplete: str) -> list[str]:
    if before and before[-1] == "=":  # bash cuts words at `=`
        return _values(verb, before[-2] if len(before) > 1 else "", incomplete, before)
    if incomplete.startswith("=") and before:
        return _values(verb, before[-1], incomplete[1:], before)
    key, equals, value = incomplete.partition("=")
    if equals:
        return [f"{key}={completed}" for completed in _values(verb, key, value, before)]
    files = [] if before else _files(incomplete)
    return [*files, *_starting((f"{key}=" for key in _keys(verb)), incomplete)]


def _keys(verb: str) -> Iterator[str]:
    """Yield the keys of a verb that have values."""
    from road_ray.config.schema import at, is_section, known_keys, schema_of
    from road_ray.verbs import configuration_class

    kind = configuration_class(verb)
    for key in known_keys(schema_of(kind)):
        node = at(kind, tuple(key.split(".")))
        if node is not None and not is_section(node):
            yield key


def _values(verb: str, key: str, incomplete: str, before: Sequence[str]) -> list[str]:
    """Return values for a key: data sets, runs or choices; of a list, those for its last item."""
    from road_ray.config.schema import at, choices, types
    from road_ray.verbs import configuration_class

    done, comma, last = incomplete.rpartition(",")
    if key.rpartition(".")[2] in _DATASETS:
        return [f"{done}{comma}{name}" for name in _starting(_datasets(before), last)]
    if key in _RUNS:
        return [f"{done}{comma}{place}" for place in complete_run(last)]
    node = at(configuration_class(verb), tuple(key.split("."))) or {}
    values = ["true", "false"] if "boolean" in types(node) else list(map(str, choices(node)))
    if not values and "path" in types(node):
        values = [str(path) for path in _entries(Path(incomplete or ".").parent)]
    return _starting(values, incomplete)


def _datasets(before: Sequence[str]) -> list[str]:
    """Return the data sets of the catalogue, and those that a YAML file of the line declares."""
    from road_ray.config.read import read_yaml
    from road_ray.data.catalog import DATASETS
    from road_ray.errors import RoadError

    own_sets: list[str] = []
    for word in before:
        if word.endswith((".yaml", ".yml")):
            try:
                own_sets += dict(read_yaml(Path(word)).values.get("data", {}).get("sets", {}))
            except (RoadError, AttributeError, TypeError, ValueError):
                continue  # a file with mistakes; the command says which
    return [*own_sets, *DATASETS]


def _files(incomplete: str) -> list[str]:
    paths = (str(path) for path in _entries(Path(incomplete or ".").parent))
    return _starting((path for path in paths if path.endswith((".yaml", ".yml"))), incomplete)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
