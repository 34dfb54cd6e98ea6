"""Groups of runs that are seeds of one experiment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from road_ray.reporting.records.run_record import RunRecord

# Keys in which the seeds of one experiment may differ.
_INDECISIVE = ("run_dir", "seed", "console", "address", "tracking.", "max_concurrent")


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only."""

    name: str
    runs: Sequence[RunRecord]

    def scores(self, metric: str) -> dict[object, float]:
        """Return the figure of each run that has it, by seed."""
        return {
            run.settings.get("seed", number): float(run.metrics[metric])
            for number, run in enumerate(self.runs)
            if isinstance(run.metrics.get(metric), int | float)
        }


def group_runs(runs: Sequence[RunRecord]) -> list[Group]:
    """Group runs whose settings differ in seed and directory only, in order of first appearance."""
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        key = repr(
            [run.verb, *sorted((k, str(v)) for k, v in run.settings.items() if is_decisive(k))]
        )
        groups.setdefault(key, []).append(run)
    names = [_common_name(members) for members in groups.values()]
    twice = {name for name in names if names.count(name) > 1}
    return [
        Group(str(members[0].directory) if name in twice else name, members)
        for name, members in zip(names, groups.values(), strict=True)
    ]


def _common_name(runs: Sequence[RunRecord]) -> str:
    """Return ``mean`` for ``mean-10`` and ``mean-11``; a single run keeps its name."""
    if len(runs) == 1:
        return runs[0].name
    stems = {re.sub(r"[-_]?(seed)?[-_]?\d+$", "", run.name) for run in runs}
    return stems.pop() if len(stems) == 1 else f"{runs[0].name} and {len(runs) - 1} more"


def is_decisive(key: str) -> bool:
    """Return True if runs that differ in this key are different experiments, not seeds of one."""
    return not key.startswith(_INDECISIVE)
