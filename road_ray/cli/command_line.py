"""What a line says of a verb's configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CommandLine:
    """A preset, over it a YAML file, over that the overrides, in the order in which they count."""

    preset: str | None
    path: Path | None
    overrides: tuple[str, ...]

    @classmethod
    def read(cls, words: Sequence[str], *, preset: str | None = None, **flags: Any) -> CommandLine:
        """Of the words after the verb, the first of which is the YAML file unless it is an
        override; flags count last, those that are None not at all.
        """
        path = Path(words[0]) if words and "=" not in words[0] else None
        own = [f"{key}={value}" for key, value in flags.items() if value is not None]
        return cls(preset, path, (*(words if path is None else words[1:]), *own))

    def config(self, verb: str) -> Any:
        """The configuration of ``verb``, with the heavy imports that this takes."""
        from road_ray.verbs import configure

        return configure(verb, preset=self.preset, path=self.path, overrides=self.overrides)
