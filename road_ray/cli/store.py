"""``road data store``: what teachers have said, kept on disk: look, verify, merge, prune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from road_ray.cli.options import JsonOption, show_list

store_app = typer.Typer(help="Look after a store of teachers' logits.", no_args_is_help=True)

_Store = Annotated[Path, typer.Argument(help="what distillation.store names")]
_Teachers = Annotated[
    list[str] | None, typer.Argument(help="of these teachers, by the beginning of their name")
]


@store_app.command("ls")
def store_ls(store: _Store, as_json: JsonOption = False) -> None:
    """Each teacher of the store: rows, size, when it was last used."""
    from road_ray.distillation.store.maintenance import list_teachers

    show_list([_line(one) for one in list_teachers(store)], as_json)


@store_app.command("inspect")
def store_inspect(store: _Store, teachers: _Teachers = None) -> None:
    """Whose answers these are: weights, tokenizer, labels, as a JSON list."""
    import json

    from road_ray.distillation.store.maintenance import list_teachers, select_teachers

    found = select_teachers(list_teachers(store), teachers or [])
    told = [{"name": one.directory.name, **one.manifest} for one in found]
    typer.echo(json.dumps(told, indent=1))


@store_app.command("verify")
def store_verify(
    store: _Store,
    teachers: _Teachers = None,
    put_aside: Annotated[bool, typer.Option(help="quarantine what is damaged")] = False,
) -> None:
    """Read every shard against its sha256; exit code 3 when one is damaged."""
    from road_ray.distillation.store.maintenance import find_damage, list_teachers, select_teachers

    problems = 0
    for one in select_teachers(list_teachers(store), teachers or []):
        found = find_damage(one, put_aside=put_aside)
        problems += len(found)
        typer.echo(f"{one.directory.name}: {len(one.shards)} shards, {len(found)} damaged")
        for problem in found:
            typer.echo(f"  {problem}", err=True)
    raise typer.Exit(3 if problems else 0)


@store_app.command("merge")
def store_merge(store: _Store, teachers: _Teachers = None) -> None:
    """One shard a teacher, each row once."""
    from road_ray.distillation.store.maintenance import list_teachers, merge, select_teachers

    for one in select_teachers(list_teachers(store), teachers or []):
        files, rows = merge(one)
        typer.echo(f"{one.directory.name}: {rows:,} rows, {len(one.shards)} -> {files} shards")


@store_app.command("prune")
def store_prune(
    store: _Store,
    teachers: _Teachers = None,
    unused_days: Annotated[
        float | None, typer.Option(min=0, help="only what nobody opened for so long")
    ] = None,
) -> None:
    """Remove teachers by name or by disuse, and shards that were put aside as damaged."""
    from road_ray.distillation.store.maintenance import (
        list_teachers,
        prune,
        remove_damaged,
        select_teachers,
    )

    kept = list_teachers(store)
    gone = (
        list(prune(select_teachers(kept, teachers or []), unused_days=unused_days))
        if (teachers or unused_days is not None)
        else []
    )
    for one in gone:
        typer.echo(f"removed {one.directory.name}: {one.num_bytes / 2**20:.1f} MiB")
    left = [one for one in kept if one not in gone]
    typer.echo(f"removed {sum(map(remove_damaged, left))} damaged shards")


def _line(one: Any) -> dict[str, Any]:
    try:
        rows: int | str = one.num_rows
    except (OSError, ValueError):
        rows = "damaged: road data store verify"
    return {
        "name": one.directory.name,
        "task": one.manifest.get("task", ""),
        "rows": rows,
        "shards": len(one.shards),
        "mib": round(one.num_bytes / 2**20, 2),
        "put_aside": one.num_damaged,
        "unused_days": round(one.unused_days, 1),
        "teacher": one.manifest.get("directory", ""),
    }
