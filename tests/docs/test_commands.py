"""Every command of the pages is one that `road` accepts: its options, its keys, its preset.

Nothing is run here; the tutorial, the examples and the blocks with a name have tests that do.
"""

import re
import shlex
from string import Template
from typing import Any

import pytest
from typer.main import get_command

from road_ray.cli.app import app
from road_ray.cli.options import sources_of
from road_ray.recipes.sweep.config import shipped
from road_ray.recipes.sweep.trials import load_sweep
from road_ray.verbs import VERBS, configure
from tests.docs.blocks import ROOT, all_blocks, pages

_FLAGS = ("run_dir", "workers", "gpus_per_worker", "address", "seed")


def commands_of(page: str) -> list[list[str]]:
    """Return the commands of `road` in the blocks of a page, with the variables that it sets."""
    text = "".join(text for language, _, text in all_blocks(page) if language in ("bash", "text"))
    variables, found = {"PORT": "8000"}, []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("export "):
            words = shlex.split(line, comments=True)
            variables |= dict(word.split("=", 1) for word in words if "=" in word)
        if re.search(r"(^|[|&] )road ", line):
            line = Template(line).safe_substitute(variables)
            found += list(_of_road(shlex.split(line, comments=True)))
    return found


def _of_road(words: list[str]) -> list[list[str]]:
    """Return the commands of `road` among those of a line, which ``|`` and ``&&`` join."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("|", "&&", "&"):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part[1:] for part in parts if part[:1] == ["road"]]


def check(words: list[str]) -> None:
    """Raise an error of `road` for words after its name that it would refuse."""
    command: Any = get_command(app)
    name, rest = "", [word for word in words if word not in ("...", "ARGUMENTS")]
    while hasattr(command, "commands"):
        name, rest = rest[0], rest[1:]
        command = command.commands[name]
    read = command.make_context(name, rest).params
    if name == "submit" and read["words"][0] in VERBS:
        check(read["words"])
    if name == "sweep" and read["arguments"][0] in shipped():
        load_sweep(read["arguments"][0], read["arguments"][1:])
    verb = read.get("verb") if name == "plan" else name
    if verb not in VERBS:
        return
    flags = {flag: read[flag] for flag in _FLAGS if read.get(flag) is not None}
    words = {"word": VERBS[verb].word, "file": VERBS[verb].file}
    path, overrides = sources_of(read["arguments"] or [], **words, **flags)
    if path and not (ROOT / path).is_file():  # the reader's own file
        path = None
    configure(verb, preset=read.get("preset"), path=path, overrides=overrides)


@pytest.mark.parametrize("page", pages())
def test_every_command_of_a_page_is_accepted(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for words in commands_of(page):
        try:
            check(words)
        except Exception as error:
            raise AssertionError(f"road {shlex.join(words)}: {error}") from error


def test_every_option_that_a_message_or_docstring_proposes_is_one_of_its_command():
    commands: Any = get_command(app).commands  # type: ignore[attr-defined]
    for file in sorted((ROOT / "road_ray").rglob("*.py")):
        for name, rest in re.findall(r"\broad (\w+) ([^`)\n]*--[^`)\n]*)", file.read_text("utf-8")):
            group = commands.get(name)
            every = [group, *getattr(group, "commands", {}).values()]
            known = {option for x in every if x for param in x.params for option in param.opts}
            named = re.findall(r"(?<!\S)--[a-z][a-z-]+", rest.partition(" -- ")[0])
            assert known.issuperset(named), (file.name, name, rest)


def test_a_command_that_is_wrong_is_found():
    for line in ("finetune optimizer.rate=1", "predict run --columns a=b", "finetune --lr=3", "go"):
        with pytest.raises(Exception, match=r"rate|columns|lr|go"):
            check(shlex.split(line))
    assert _of_road(shlex.split("echo a | road predict m && road check")) == [
        ["predict", "m"],
        ["check"],
    ]
