"""``road data store``: what teachers have said, kept on disk: look, verify, merge, prune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from road_ray.cli.options import JsonOption, show_list

store_app = typer.Typer(help="Inspect and clean a store of teacher logits.", no_args_is_help=True)

_Store = Annotated[Path, typer.Argument(help="directory of distillation.store")]
_Teachers = Annotated[
    list[str] | None, typer.Argument(help="teachers, by the beginning of their names; default: all")
]


@store_app.command("ls")
def store_ls(store: _Store, as_json: JsonOption = False) -> None:
    """List the teachers of a store: rows, size, last use."""
    from road_ray.distillation.logit_store.maintenance import list_teachers

    show_list([_line(one) for one in list_teachers(store)], as_json)


@store_app.command("inspect")
def store_inspect(store: _Store, teachers: _Teachers = None) -> None:
    """Show the identity of each teacher as JSON: weights, tokenizer, labels."""
    import json

    from road_ray.distillation.logit_store.maintenance import list_teachers, select_teachers

    found = select_teachers(list_teachers(store), teachers or [])
    told = [{"name": one.directory.name, **one.manifest} for one in found]
    typer.echo(json.dumps(told, indent=1))


@store_app.command("verify")
def store_verify(
    store: _Store,
    teachers: _Teachers = None,
    put_aside: Annotated[bool, typer.Option(help="move damaged shards to quarantine")] = False,
) -> None:
    """Check every shard against its sha256; exit code 3 if one is damaged."""
    from road_ray.distillation.logit_store.maintenance import (
        find_damage,
        list_teachers,
        select_teachers,
    )

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
    """Merge the shards of each teacher into one."""
    from road_ray.distillation.logit_store.maintenance import list_teachers, merge, select_teachers

    for one in select_teachers(list_teachers(store), teachers or []):
        files, rows = merge(one)
        typer.echo(f"{one.directory.name}: {rows:,} rows, {len(one.shards)} -> {files} shards")


@store_app.command("prune")
def store_prune(
    store: _Store,
    teachers: _Teachers = None,
    unused_days: Annotated[
        float | None, typer.Option(min=0, help="only teachers unused for so many days")
    ] = None,
) -> None:
    """Remove teachers by name or disuse, and quarantined shards."""
    from road_ray.distillation.logit_store.maintenance import (
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
