"""The pages name files, folders and functions that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.test_architecture import ROWS

TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
MAP = ROOT / "docs" / "architecture.md"
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """Return the text of a page without its fenced code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[tuple[str, str]]:
    """Return the text and the target of every relative link of a page."""
    return [
        (text, target)
        for text, target in _LINK.findall(prose(page))
        if not re.match(r"[a-z]+:", target)
    ]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@cache
def definitions(path: Path) -> frozenset[str]:
    """Return the functions and classes of a module, methods as ``Class.method``."""
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
            names |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef)
            }
    return frozenset(names)


def block(heading: str) -> str:
    """Return the code block below a heading of the map."""
    section = MAP.read_text("utf-8").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return section.split("```")[1].partition("\n")[2]


def entries(tree: str) -> list[str]:
    """Return the paths of a tree that is indented by two spaces a level."""
    above: list[str] = []
    links = []
    for line in filter(None, tree.splitlines()):
        name, depth = line.split()[0], (len(line) - len(line.lstrip())) // 2
        above[depth:] = [name]
        links.append("".join(above))
    return links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_and_path_of_a_page_exists(page):
    wrong = []
    for _, target in links(page):
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            wrong.append(target)
    for path in re.findall(r"`((?:road_ray|tests)/[\w./-]*)`", page.read_text("utf-8")):
        if not (ROOT / path).exists():
            wrong.append(path)
    assert wrong == []


def test_every_function_named_by_a_link_is_defined_in_the_linked_module():
    names = [
        (name, (MAP.parent / target).resolve())
        for text, target in links(MAP)
        if target.endswith(".py")
        for name in re.findall(r"^`([\w.]+)`$", text)
    ]
    assert len(names) > 40
    assert [name for name, module in names if name not in definitions(module)] == []


def test_the_tree_lists_every_folder_and_nothing_that_is_gone():
    listed = entries(block("The tree"))
    assert [path for path in listed if not (ROOT / path).exists()] == []
    folders = {
        f"{path.parent.relative_to(ROOT).as_posix()}/"
        for path in (ROOT / "road_ray").rglob("__init__.py")
    }
    assert sorted(folders - {*listed}) == []


def test_the_picture_of_the_layers_has_the_order_that_is_enforced():
    picture = block("The layers")
    lines = [{name for name in re.findall(r"[\w/]+", line)} for line in picture.splitlines()]
    drawn = [
        min(number for number, names in enumerate(lines) if name in names)
        for row in ROWS
        for name in sorted(row - {"__init__", "__main__"})
    ]
    assert drawn == sorted(drawn, reverse=True)


def test_pages_named_in_messages_and_docstrings_exist():
    names = {
        match
        for path in (ROOT / "road_ray").rglob("*.py")
        for match in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text("utf-8"))
    }
    assert len(names) > 3
    assert [page for page in sorted(names) if not (ROOT / page).is_file()] == []
