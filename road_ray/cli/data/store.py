"""``road data store``: inspect, verify, merge and prune stored logits of teachers."""

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

    show_list([_line(teacher) for teacher in list_teachers(store)], as_json)


@store_app.command("inspect")
def store_inspect(store: _Store, teachers: _Teachers = None) -> None:
    """Show the identity of each teacher as JSON: weights, tokenizer, labels."""
    import json

    from road_ray.distillation.logit_store.maintenance import list_teachers, select_teachers

    selected = select_teachers(list_teachers(store), teachers or [])
    identities = [{"name": teacher.directory.name, **teacher.manifest} for teacher in selected]
    typer.echo(json.dumps(identities, indent=1))


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
    for teacher in select_teachers(list_teachers(store), teachers or []):
        damage = find_damage(teacher, put_aside=put_aside)
        problems += len(damage)
        typer.echo(f"{teacher.directory.name}: {len(teacher.shards)} shards, {len(damage)} damaged")
        for problem in damage:
            typer.echo(f"  {problem}", err=True)
    raise typer.Exit(3 if problems else 0)


@store_app.command("merge")
def store_merge(store: _Store, teachers: _Teachers = None) -> None:
    """Merge the shards of each teacher into one."""
    from road_ray.distillation.logit_store.maintenance import list_teachers, merge, select_teachers

    for teacher in select_teachers(list_teachers(store), teachers or []):
        files, rows = merge(teacher)
        typer.echo(
            f"{teacher.directory.name}: {rows:,} rows, {len(teacher.shards)} -> {files} shards"
        )


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

    stored = list_teachers(store)
    removed = (
        list(prune(select_teachers(stored, teachers or []), unused_days=unused_days))
        if (teachers or unused_days is not None)
        else []
    )
    for teacher in removed:
        typer.echo(f"removed {teacher.directory.name}: {teacher.num_bytes / 2**20:.1f} MiB")
    remaining = [teacher for teacher in stored if teacher not in removed]
    typer.echo(f"removed {sum(map(remove_damaged, remaining))} damaged shards")


def _line(teacher: Any) -> dict[str, Any]:
    try:
        rows: int | str = teacher.num_rows
    except (OSError, ValueError):
        rows = "damaged: road data store verify"
    return {
        "name": teacher.directory.name,
        "task": teacher.manifest.get("task", ""),
        "rows": rows,
        "shards": len(teacher.shards),
        "mib": round(teacher.num_bytes / 2**20, 2),
        "put_aside": teacher.num_damaged,
        "unused_days": round(teacher.unused_days, 1),
        "teacher": teacher.manifest.get("directory", ""),
    }
