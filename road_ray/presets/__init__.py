"""Presets: named configurations, each a YAML file as users write them, in the folder of its verb.

The comment at the top of a file, below the line for editors, says what it is and names its source;
``road presets NAME`` prints the file. A preset may begin with another one (``preset: NAME``). To
add one, add a file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from road_ray.config import read_yaml
from road_ray.config.merge import merge
from road_ray.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Preset:
    """A named configuration of one verb, and the file that holds it."""

    name: str
    verb: str
    path: Path

    @property
    def text(self) -> str:
        """The file."""
        return self.path.read_text(encoding="utf-8")

    @property
    def about(self) -> str:
        """The comment at the top of the file, after the line of the editor's schema."""
        comment, _, _ = self.text.partition("\n\n")
        return " ".join(line.removeprefix("# ") for line in comment.splitlines()[1:])

    def values(self) -> dict[str, Any]:
        """Return the keys that the preset and those that it begins with set."""
        written = read_yaml(self.path).values
        before = written.pop("preset", None)
        return merge(PRESETS[before].values(), written) if before else written


PRESETS: Mapping[str, Preset] = {
    path.stem: Preset(path.stem, path.parent.name, path)
    for path in sorted(Path(__file__).parent.glob("*/*.yaml"))
}


def get_preset(name: str, verb: str | None = None) -> Preset:
    """Return the preset ``name``. Raises ``ConfigError`` with the nearest one, of ``verb`` if it is
    given, for one that there is not or that is of another verb.
    """
    chosen = PRESETS.get(name)
    if chosen is None or verb not in (None, chosen.verb):
        known = sorted(preset.name for preset in PRESETS.values() if verb in (None, preset.verb))
        of, problem = f" for `road {verb}`" if verb else "", f"unknown preset {name!r}"
        fix = "use one of these; `road presets NAME` prints its keys"
        if chosen is not None:
            problem = f"preset {name!r} is of `road {chosen.verb}`"
            fix = f"road {chosen.verb} --preset {name}"
        raise ConfigError(
            f"{problem}{did_you_mean(name, known)}\n"
            f"  allowed{of}: {', '.join(known) or 'none'}\n  fix: {fix}"
        )
    return chosen
