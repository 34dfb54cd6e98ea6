"""A self-contained HTML page made of blocks: figures, tables, prose, verdicts, examples.

It loads nothing from the network and can be read without JavaScript. Jinja escapes all values.
Style and scripts are in ``assets/``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from road_ray.config.schema import format_value
from road_ray.reporting.plots import ASSETS, Plot, inline_svg
from road_ray.reporting.text_tables import printable

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

State = Literal["good", "fair", "bad", "plain"]
Value = str | float | int | None


@dataclass(frozen=True)
class Cell:
    """A table cell. ``value`` is the sort key if it is not the text, ``link`` a file that may
    exist, ``state`` a colour.
    """

    text: str
    value: Value = None
    strong: bool = False
    link: Path | None = None
    state: State = "plain"


NOTHING = Cell("\N{EN DASH}")
Row = Sequence[Cell | Value]


@dataclass(frozen=True)
class Table:
    """Rows below column names. ``live`` tables can be sorted and filtered; ``trials`` links each
    row with its marks in the figures.
    """

    names: Sequence[str]
    rows: Sequence[Row]
    live: bool = False
    trials: Sequence[int] = ()
    note: str = ""

    @cached_property
    def cells(self) -> list[list[Cell]]:
        """Return the rows with every value formatted."""
        return [[v if isinstance(v, Cell) else cell(v) for v in row] for row in self.rows]

    @cached_property
    def numeric(self) -> list[bool]:
        """Return for each column if it holds numbers, which are right-aligned."""
        columns = zip(*self.cells, strict=True) if self.rows else [()] * len(self.names)
        return [any(isinstance(c.value, int | float) for c in column) for column in columns]


@dataclass(frozen=True)
class Example:
    """One wrong prediction. Every second piece of ``context`` is the labelled answer."""

    ask: str
    context: Sequence[str]
    gold: str
    predicted: str
    tag: str = ""


@dataclass(frozen=True)
class Folded:
    """Long text that opens on demand."""

    title: str
    text: str


# A text is a paragraph, texts are a list, cells are verdicts, plots a grid.
Block = Table | Folded | str | list[str] | list[Cell] | list[Plot] | list[Example]


@dataclass(frozen=True)
class Section:
    """A heading with blocks below it."""

    title: str
    blocks: Sequence[Block]
    about: str = ""


@dataclass(frozen=True)
class Page:
    """A whole page. ``tiles`` are the few most important numbers: name, value, remark."""

    title: str
    about: str = ""
    kicker: str = "road_ray"
    tiles: Sequence[tuple[str, str, str]] = ()
    sections: Sequence[Section] = field(default=())

    def plots(self) -> list[Plot]:
        """Return all plots in order."""
        blocks = [block for section in self.sections for block in section.blocks]
        lists = [block for block in blocks if isinstance(block, list)]
        return [plot for plots in lists for plot in plots if isinstance(plot, Plot)]


def filled(sections: Sequence[Section]) -> list[Section]:
    """Return the sections without empty blocks and tables, and only those that have a block."""
    full = [replace(s, blocks=[b for b in s.blocks if getattr(b, "rows", b)]) for s in sections]
    return [section for section in full if section.blocks]


def render(page: Page, place: Path = Path()) -> str:
    """Return the page as HTML for a file in the directory ``place``, where its links start."""
    page_html = template("page.html", inline_svg=inline_svg, link=_link, breakable=_breakable)
    return page_html.render(page=page, place=place)


def _link(target: Path, place: Path) -> str:
    """Return the link from a page in ``place`` to an existing file; else an empty text."""
    if not target.is_file():
        return ""
    return quote(os.fsencode(os.path.relpath(target.resolve(), place.resolve())))


def _breakable(text: str) -> Markup:
    """Return a text whose paths and keys a browser breaks between their parts."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(map(escape, re.split(r"(?<=[/._])(?=[a-zA-Z])", text)))


def cell(value: Value, form: str = "") -> Cell:
    """Return a value as formatted in a table, a number by ``form`` if that is given."""
    if value is None:
        return NOTHING
    if form:
        return Cell(format(value, form), value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Cell(str(value))
    if isinstance(value, int):
        return Cell(f"{value:,}", value)
    return Cell(f"{value:.2f}" if 0.1 <= abs(value) < 1e5 else f"{value:.3g}", value)


def setting(value: object) -> str:
    """Return the value of a configuration key or of an event as in YAML."""
    return value if isinstance(value, str) else format_value(value)


def _in_order(value: object) -> object:
    """Return a template value; text loses marks that change its reading direction."""
    return type(value)(printable(value, keep="\n\t")) if isinstance(value, str) else value


@cache
def template(name: str, **filters: Callable[..., str]) -> Template:
    """Return a template of ``assets/`` with filters of its own. Values in HTML are escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_in_order,
    )
    environment.filters |= filters
    return environment.get_template(name)
