"""Table of a comparison: metrics of each arm over seeds and tests between arms, and published
results on the same data sets (``published.csv``). An experiment writes a table as
``table.json``; for other runs it is made from their groups.

Published are percentages on dev sets, single models. Sources: Clark et al. 2020 (ELECTRA), tables 1
and 2 and the medians of its repository; the ROaD-ELECTRA posts, part 1 (tables of sections 4 and 5)
and part 2. They come from large models and full data; a small run cannot reach them.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.dataclasses import dataclass as checked

from road_ray.errors import CheckpointError, shorten
from road_ray.evaluation.seed_statistics import Difference, compare, holm, interval, summary
from road_ray.reporting.plots import ASSETS
from road_ray.reporting.records.run_record import RunRecord

TABLE = "table.json"
# Keys in which the seeds of one experiment may differ.
_INDECISIVE = (
    *("run_dir", "seed", "console", "address", "tracking.", "max_concurrent"),
    "training.mirror",  # each seed has an address of its own
)


class Score(BaseModel):
    """A metric of an arm: mean, deviation and 95% interval over seeds; ``values`` by seed."""

    mean: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    values: dict[str, float] = {}
    published: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the bounds of the 95% interval, if there is one."""
        return None if self.low is None or self.high is None else (self.low, self.high)


class Arm(BaseModel):
    """One arm; ``figures`` are its metrics by ``<data set>/<metric>``."""

    name: str
    about: str
    seeds: list[int | str]
    figures: dict[str, Score]
    parameters: int | None = None
    teachers_right: list[float] | None = None


@checked(frozen=True, kw_only=True)
class Test(Difference):
    """A paired test of two arms over their common seeds."""

    data_set: str
    metric: str
    arm: str
    against: str
    p_holm: float | None


class Failed(BaseModel):
    """A run that ended with an error."""

    arm: str
    seed: int
    error: str


class ComparisonTable(BaseModel):
    """The content of ``table.json``. ``data_sets`` has the metrics of each, first the tested;
    ``teachers`` the single teachers and ensembles of the arms.
    """

    comparison: str
    about: str
    source: str = ""
    data_sets: dict[str, list[str]]
    arms: list[Arm]
    teachers: list[Arm] = []
    tests: list[Test]
    failed: list[Failed] = []


def read_table(directory: Path) -> ComparisonTable:
    """Return the table of an experiment. Raises ``CheckpointError`` for a damaged one."""
    path = directory / TABLE
    try:
        return ComparisonTable.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        why = shorten(" ".join(str(error).split()), 200)
        remedy = "delete it and metrics.json beside it, and run the same command again"
        raise CheckpointError(f"{path}: damaged: {why}\n  fix: {remedy}") from error


def arm_of(
    name: str,
    about: str,
    runs: Mapping[Any, Mapping[str, Any]],
    metrics: Sequence[str],
    published: Mapping[str, float] | None = None,
    **known: Any,
) -> Arm:
    """Return an arm with mean, deviation and interval over seeds of every metric, ``<data
    set>/<metric>``, that it has. ``runs`` are the metrics of its runs by seed.
    """
    figures = {}
    for metric in metrics:
        found = {str(seed): run.get(f"eval/{metric}") for seed, run in runs.items()}
        values = {seed: float(x) for seed, x in found.items() if isinstance(x, int | float)}
        if values:
            mean, deviation = summary([*values.values()])
            low, high = interval([*values.values()]) or (None, None)
            figures[metric] = Score(
                mean=mean,
                deviation=deviation,
                low=low,
                high=high,
                values=values,
                published=(published or {}).get(metric),
            )
    return Arm(name=name, about=about, figures=figures, **{"seeds": [*runs]} | known)


def paired_tests(
    arms: Sequence[Arm],
    against: Mapping[str, Sequence[str]],
    data_sets: Mapping[str, Sequence[str]],
) -> list[Test]:
    """Return the tests on the first metric of each data set, between each arm and those it is
    compared ``against``, over the seeds that both have; ``p_holm`` corrects for the number of tests
    on a data set.
    """
    tests = []
    for data_set, metrics in data_sets.items():
        key, compared = f"{data_set}/{metrics[0]}", []
        values = {arm.name: arm.figures[key].values for arm in arms if key in arm.figures}
        for arm, others in against.items():
            for other in others:
                left, right = values.get(arm, {}), values.get(other, {})
                shared = [seed for seed in left if seed in right]
                if len(shared) > 1:
                    pairs = [left[seed] for seed in shared], [right[seed] for seed in shared]
                    compared.append((arm, other, compare(*pairs)))
        corrected = holm([found.p_value for _, _, found in compared])
        for (arm, other, found), p_holm in zip(compared, corrected, strict=True):
            names = {"data_set": data_set, "metric": metrics[0], "arm": arm, "against": other}
            tests.append(Test(**asdict(found) | names, p_holm=p_holm))
    return tests


Groups = Mapping[str, Sequence[RunRecord]]
"""Runs that differ in their seed only, by the name of their group."""


def group_runs(runs: Sequence[RunRecord]) -> Groups:
    """Group runs whose settings differ in seed and directory only, in order of first appearance.
    Models of other seeds (``init`` of ``pre/seed-0``, ``pre/seed-1``) are equal settings.
    """
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        decisive = {k: str(v) for k, v in run.settings.items() if is_decisive(k)}
        decisive["init"] = re.sub(r"\bseed[-_]?\d+", "seed", decisive.get("init", ""))
        groups.setdefault(repr([run.verb, *sorted(decisive.items())]), []).append(run)
    paths = [_path_of(members) for members in groups.values()]
    for count in range(1, max(map(len, paths), default=0) + 1):
        named = dict(zip(("/".join(path[-count:]) for path in paths), groups.values(), strict=True))
        if len(named) == len(groups):
            return named
    return {str(members[0].directory): members for members in groups.values()}


def _path_of(members: Sequence[RunRecord]) -> tuple[str, ...]:
    """Return the parts of the path of a group's first run, without the seeds of several runs:
    ``mean`` for ``mean-10`` and ``mean-11``, ``kd/student`` for ``kd/seed-0/student`` and its like.
    """
    *folders, name = members[0].directory.resolve().parts
    if len(members) == 1:
        return (*folders, name)
    kept = [folder for folder in folders if not re.fullmatch(r"seed[-_]?\d+", folder)]
    stems = {re.sub(r"([-_]?seed[-_]?|[-_])\d+$", "", x.directory.resolve().name) for x in members}
    stems = stems if len(stems) == 1 else {f"{name} and {len(members) - 1} more"}
    return (*kept, *filter(None, stems))


def is_decisive(key: str) -> bool:
    """Return True if runs that differ in this key are different experiments, not seeds of one."""
    return not key.startswith(_INDECISIVE)


def table_of_groups(
    title: str, about: str, groups: Groups, base: str, metrics: Sequence[str]
) -> ComparisonTable:
    """Return the table of groups of runs, each tested against ``base``. ``metrics`` are names such
    as ``eval/sst2/accuracy``.
    """
    names = [metric.removeprefix("eval/") for metric in metrics]
    data_sets: dict[str, list[str]] = {}
    for name in names:
        data_set, _, metric = name.partition("/")
        data_sets.setdefault(data_set, []).append(metric)
    arms = []
    for group, runs in groups.items():
        seeds = [run.settings.get("seed", number) for number, run in enumerate(runs)]
        # Runs of one seed by directory, which no other group has: they are in no pair.
        by_seed = {
            seed if seeds.count(seed) == 1 else str(run.directory): run.metrics
            for seed, run in zip(seeds, runs, strict=True)
        }
        seeds = sorted({str(run.settings.get("seed")) for run in runs})
        arms.append(arm_of(group, group, by_seed, names, seeds=seeds))
    against = {group: [base] for group in groups if group != base}
    tests = paired_tests(arms, against, data_sets)
    return ComparisonTable(
        comparison=title, about=about, data_sets=data_sets, arms=arms, tests=tests
    )


# Papers report F1 of SQuAD 2.0 with a threshold tuned on the dev set.
_SAME = {"best_f1": "f1", "best_exact": "exact", "at_threshold_f1": "f1"}
_SAME |= {"at_threshold_exact": "exact"}


@cache
def published_line(dataset: str, metric: str, most: int = 3) -> str:
    """Return the highest published values in one line: ``91.5 Weighted KD, W = 0.75 · ...``."""
    key = dataset, _SAME.get(metric, metric)
    rows = csv.DictReader((ASSETS / "published.csv").read_text("utf-8").splitlines())
    found = [row for row in rows if (row["dataset"], row["metric"]) == key]
    best = sorted(found, key=lambda row: -float(row["value"]))[:most]
    return " · ".join(f"{float(row['value'])} {row['model']}" for row in best)
