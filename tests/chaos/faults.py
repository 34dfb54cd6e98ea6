"""The faults that road_ray is held to: the table in ``faults.yaml``."""

from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    what: str
    expected: str
    tests: tuple[str, ...] = ()
    lacks: str = ""


_TABLE = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))
FAULTS = tuple(
    Fault(name, **row | {"tests": tuple(row.get("tests", ()))}) for name, row in _TABLE.items()
)
