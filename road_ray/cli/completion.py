"""Shell completion: presets, keys, YAML files and run directories. ``road --install-completion``
installs it. It loads configuration classes only.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

_RECORDS = ("config.resolved.yaml", "sweep.resolved.yaml", "hf")  # marks of a run directory


def complete_preset(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the presets of the verb; of all verbs for other commands."""
    from road_ray.presets import PRESETS

    verb = ctx.params.get("verb") or ctx.info_name
    presets = [p for p in PRESETS.values() if p.verb == verb] or list(PRESETS.values())
    return [(p.name, p.about) for p in presets if p.name.startswith(incomplete)]


def complete_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return keys of the verb with ``=``, and YAML files for the first word."""
    verb = str(ctx.params.get("verb") or ctx.info_name)
    return [*_files(ctx, incomplete), *_keys(verb, incomplete)]


def complete_key(incomplete: str) -> list[str]:
    """Return the keys of all verbs."""
    from road_ray.verbs import CONFIGURABLE, keys_of

    return _starting(keys_of(CONFIGURABLE), incomplete)


def complete_run(incomplete: str) -> list[str]:
    """Return run directories, and folders on the way to them."""
    paths = []
    for path in _entries(incomplete):
        if path.is_dir() and not path.name.startswith("."):
            is_run = any((path / name).exists() for name in _RECORDS)
            paths.append(str(path) if is_run else f"{path}/")
    return _starting(paths, incomplete)


def _keys(verb: str, incomplete: str) -> list[str]:
    from road_ray.config.schema import at, is_section
    from road_ray.verbs import configuration_class, keys_of

    kind = configuration_class(verb)
    keys = (key for key in keys_of([verb]) if not is_section(at(kind, tuple(key.split("."))) or {}))
    return _starting((f"{key}=" for key in keys), incomplete)


def _files(ctx: typer.Context, incomplete: str) -> list[str]:
    paths = [] if ctx.params.get("arguments") else _entries(incomplete)
    return _starting((str(p) for p in paths if p.suffix in (".yaml", ".yml")), incomplete)


def _entries(incomplete: str) -> list[Path]:
    folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
