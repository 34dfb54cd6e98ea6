"""``road data store``: list, verify and prune the answers of teachers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from road_ray.cli.options import JsonOption, show_list

store_app = typer.Typer(help="List, verify and remove answers of teachers.", no_args_is_help=True)

_Store = Annotated[
    Path, typer.Argument(help="directory of distillation.store, or answers/ of a run")
]
_Teachers = Annotated[
    list[str] | None, typer.Argument(help="teachers, by the beginning of their names; default: all")
]


@store_app.command("ls")
def store_ls(store: _Store, as_json: JsonOption = False) -> None:
    """List the teachers with answers: rows, size, last use."""
    from road_ray.distillation.answers.maintenance import list_teachers

    show_list([_line(teacher) for teacher in list_teachers(store)], as_json)


@store_app.command("verify")
def store_verify(store: _Store, teachers: _Teachers = None) -> None:
    """Check every table against its sha256; exit code 3 if one is damaged."""
    from road_ray.distillation.answers.maintenance import find_damage, list_teachers

    problems = 0
    for teacher in list_teachers(store, teachers or ()):
        damage = find_damage(teacher)
        problems += len(damage)
        typer.echo(f"{teacher.directory.name}: {len(teacher.tables)} tables, {len(damage)} damaged")
        for problem in damage:
            typer.echo(f"  {problem}", err=True)
    raise typer.Exit(3 if problems else 0)


@store_app.command("prune")
def store_prune(
    store: _Store,
    teachers: _Teachers = None,
    unused_days: Annotated[
        float | None, typer.Option(min=0, help="only teachers unused for so many days")
    ] = None,
) -> None:
    """Remove the answers of teachers by name or disuse."""
    from road_ray.distillation.answers.maintenance import list_teachers
    from road_ray.errors import ConfigError

    if not teachers and unused_days is None:
        raise ConfigError("name the teachers to remove, or --unused-days DAYS")
    for teacher in list_teachers(store, teachers or ()):
        if unused_days is None or teacher.unused_days >= unused_days:
            shutil.rmtree(teacher.directory)
            typer.echo(f"removed {teacher.directory.name}: {teacher.num_bytes / 2**20:.1f} MiB")


def _line(teacher: Any) -> dict[str, Any]:
    from road_ray.errors import DataError

    try:
        rows: int | str = teacher.num_rows
    except DataError:
        rows = "damaged: road data store verify"
    return {
        "name": teacher.directory.name,
        "task": teacher.manifest.get("task", ""),
        "rows": rows,
        "tables": len(teacher.tables),
        "mib": round(teacher.num_bytes / 2**20, 2),
        "unused_days": round(teacher.unused_days, 1),
        "teacher": teacher.manifest.get("directory", ""),
    }
