"""The code blocks of a page and the commands in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(page: str, language: str = "bash") -> dict[str, str]:
    """Return the code blocks of a page that have a name after their language, by name."""
    text = (ROOT / page).read_text("utf-8")
    matches = re.findall(rf"^```{language} (\w+)\n(.*?)^```", text, flags=re.M | re.S)
    assert len({name for name, _ in matches}) == len(matches)
    return dict(matches)


def commands(block: str) -> list[list[str]]:
    """Return the commands of a shell block as lists of words, without comments."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]
