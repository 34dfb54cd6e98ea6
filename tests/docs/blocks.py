"""The code blocks of a page and the commands in them."""

import re
import shlex
from pathlib import Path

from tests.published import publish

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/*.md", "docs/guides/*.md"]
_BLOCK = re.compile(r"^```(\w*) ?(\w*)\n(.*?)^```", flags=re.M | re.S)


def pages() -> list[str]:
    """Return the pages that a user reads, as paths below the root."""
    paths = (path for pattern in PAGES for path in sorted(ROOT.glob(pattern)))
    return [path.relative_to(ROOT).as_posix() for path in paths]


def all_blocks(page: str) -> list[tuple[str, str, str]]:
    """Return language, name and text of every code block of a page."""
    return _BLOCK.findall((ROOT / page).read_text("utf-8"))


def blocks(page: str, language: str = "bash") -> dict[str, str]:
    """Return the code blocks of a page that have a name after their language, by name."""
    found = [(name, text) for kind, name, text in all_blocks(page) if kind == language and name]
    assert len(dict(found)) == len(found)
    return dict(found)


def commands(block: str) -> list[list[str]]:
    """Return the commands of a shell block as lists of words, without comments."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def publish_sentiment_models(place: Path) -> None:
    """Save tiny models under the names of the published ones that pages and examples name."""
    numbered, named = ("LABEL_0", "LABEL_1"), ("NEGATIVE", "POSITIVE")
    models = (
        ("textattack/bert-base-uncased-SST-2", "bert", numbered),
        ("textattack/roberta-base-SST-2", "roberta", numbered),
        ("distilbert/distilbert-base-uncased-finetuned-sst-2-english", "distilbert", named),
    )
    for seed, (name, family, labels) in enumerate(models):
        publish(place / name, family, "ForSequenceClassification", labels=labels, seed=seed)
