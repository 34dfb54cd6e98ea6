"""Build the documentation site, ``build/site``, from the pages of ``docs/``.

The pages are copied to ``build/docs`` with the README as the first one, the examples, and the
references of the command line and of Python, which are made of the code. Zensical renders them; a
warning is an error. Nothing comes from the network, at the building and at the reading.
"""

import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
COPIED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "examples": "examples",
    "docs": ".",
}
TUTORIAL = "tutorial.md"
SECTIONS = {
    "Guides": "guides/*.md",
    "Examples": "examples/index.md",
    "Reference": "reference/*.md",
    "Explanation": "*.md",
    "Results": "results/*.md",
}
PROJECT = ("contributing.md", "changelog.md", "security.md")
SHIM = Path(__file__).with_name("iframe-worker.js")
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|link[^>]*stylesheet)[^>]*(?:src|href)=["']?https?:[^"' >]*"""
)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_DIAGRAM = re.compile(r"^```mermaid\n.*?^```$", re.DOTALL | re.MULTILINE)
FLOW = "pictures/flow.svg"  # of the README; a browser would fetch a program for Mermaid
_NAMED_FENCE = re.compile(r"^(```\w+) [\w-]+$", re.MULTILINE)  # a test finds the block by its name
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def copy_pages(pages: Path) -> None:
    """Copy all pages, pictures and scripts to ``pages``, with links that hold there."""
    for source, target in COPIED.items():
        if (ROOT / source).is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / source, pages / target, dirs_exist_ok=True, ignore=skip)
        else:
            shutil.copy(ROOT / source, pages / target)
    (pages / "examples" / "README.md").rename(pages / "examples" / "index.md")
    (pages / "results" / "README.md").rename(pages / "results" / "index.md")
    for page in pages.rglob("*.md"):
        text = page.read_text("utf-8")
        origin = _origin(page.relative_to(pages).as_posix())
        page.write_text(relinked(text, ROOT / origin, page, pages), encoding="utf-8")


def _origin(name: str) -> str:
    """Return the place in the repository of a page of the site."""
    known = {target: source for source, target in COPIED.items()}
    if name in known:
        return known[name]
    name = name if name != "results/index.md" else "results/README.md"
    return name.replace("index.md", "README.md") if "examples/" in name else f"docs/{name}"


def _target(source: Path) -> str | None:
    """Return the place on the site of a file of the repository, or None if it is not there."""
    name = source.relative_to(ROOT).as_posix()
    if name in COPIED and not source.is_dir():
        return COPIED[name]
    if name in ("docs/results", "examples"):
        name += "/README.md"
    if name.startswith("examples/") or name.startswith("docs/"):
        place = name.removeprefix("docs/")
        return re.sub(r"^(results|examples)/README\.md$", r"\1/index.md", place)
    return None


def relinked(text: str, origin: Path, page: Path, pages: Path) -> str:
    """Return a page with its relative links rewritten and names of code blocks removed, which the
    generator does not know. A link to code becomes its text; a diagram that a browser would fetch a
    program for becomes the picture of it.
    """

    def link(found: re.Match[str]) -> str:
        mark, label, target = found.groups()
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return found[0]
        place = _target((origin.parent / path).resolve())
        if place is None:
            return label
        up = "../" * (len(page.relative_to(pages).parts) - 1)
        return f"{mark}[{label}]({up}{place}{'#' + anchor if anchor else ''})"

    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    text = _NAMED_FENCE.sub(r"\1", "".join(parts))
    return _DIAGRAM.sub(f"![how the stages follow each other]({FLOW})", text)


def command_reference() -> str:
    """Return the page of the command line: the help of every command."""
    from typer.main import get_command

    from road_ray.cli.app import app

    def helps(command: Any, name: str, above: Any = None) -> Iterator[str]:
        context = command.make_context(name, [], parent=above, resilient_parsing=True)
        context.max_content_width = 96
        yield f"## {context.command_path}\n\n```text\n{command.get_help(context).strip()}\n```\n"
        for inner in getattr(command, "commands", {}).items():
            yield from helps(inner[1], inner[0], context)

    start = "# Command line\n\nThe help of every command, as `road COMMAND --help` prints it.\n\n"
    return start + "\n".join(helps(get_command(app), "road"))


def python_reference() -> str:
    """Return the page of the Python API: signature and docstring of every public name."""
    import road_ray
    from road_ray.verbs import VERBS, perform

    lines = ["# Python\n", f"{inspect.cleandoc(road_ray.__doc__ or '')}\n"]
    for name in sorted(road_ray.__all__):
        member = getattr(road_ray, name)
        lines.append(f"## road_ray.{name}\n")
        if name in VERBS:
            signature = str(inspect.signature(perform)).replace("(verb: 'str', ", "(")
            about = f"{VERBS[name].about[0].upper()}{VERBS[name].about[1:]}.\n\n"
            about += inspect.cleandoc(perform.__doc__ or "")
        else:
            signature = str(inspect.signature(member))
            about = inspect.cleandoc(member.__doc__ or "")
        code = f"```python\n{name}{signature}\n```"
        lines.append(f"{code}\n\n{_prose(about)}\n")
        if inspect.isclass(member):
            lines += list(_methods(name, member))
    return "\n".join(lines)


def _methods(name: str, kind: type) -> Iterator[str]:
    for inner, member in vars(kind).items():
        function = member.fget if isinstance(member, property) else member
        own = inspect.isfunction(function) and function.__module__.startswith("road_ray")
        if own and not inner.startswith("_") and function.__doc__:
            form = "" if isinstance(member, property) else str(inspect.signature(function))
            about = _prose(inspect.cleandoc(function.__doc__))
            yield f"### {name}.{inner}\n\n```python\n{inner}{form}\n```\n\n{about}\n"


def _prose(docstring: str) -> str:
    """Return a docstring as Markdown: single backticks, ``::`` before code as a colon."""
    return re.sub(r"::$", ":", docstring.replace("``", "`"), flags=re.MULTILINE)


def navigation(pages: Path) -> list[dict[str, Any]]:
    """Return the tree of all pages."""
    found: list[dict[str, Any]] = [{"road_ray": "index.md"}, {"Tutorial": TUTORIAL}]
    for title, pattern in SECTIONS.items():
        names = sorted(page.relative_to(pages).as_posix() for page in pages.glob(pattern))
        names = [name for name in names if name not in ("index.md", TUTORIAL, *PROJECT)]
        names.sort(key=lambda name: not name.endswith("index.md"))
        found.append({title: names})
    found.append({"Project": list(PROJECT)})
    return found


def configuration(pages: Path, site: Path) -> str:
    """Return the configuration of Zensical, as JSON, which is YAML."""
    settings = {
        "site_name": "road_ray",
        "site_description": "ROaD-ELECTRA on Ray",
        "docs_dir": pages.name,
        "site_dir": site.name,
        "use_directory_urls": False,
        "theme": {
            "font": False,
            "language": "en",
            "features": ["content.code.copy", "navigation.indexes", "toc.follow"],
            "palette": [
                {
                    "media": f"(prefers-color-scheme: {name})",
                    "scheme": scheme,
                    "toggle": {"icon": icon, "name": f"{other} colours"},
                }
                for name, scheme, icon, other in (
                    ("light", "default", "lucide/sun", "Dark"),
                    ("dark", "slate", "lucide/moon", "Light"),
                )
            ],
        },
        "plugins": ["search", "offline"],
        "markdown_extensions": [
            "tables",
            "admonition",
            "attr_list",
            {"toc": {"permalink": True}},
            "pymdownx.superfences",
            {"pymdownx.highlight": {"anchor_linenums": True}},
            "pymdownx.inlinehilite",
        ],
        "nav": navigation(pages),
    }
    return json.dumps(settings, indent=1)


def build(place: Path = BUILD) -> Path:
    """Build the site below ``place`` and return it. Raises ``SystemExit`` on warnings."""
    pages, site = place / "docs", place / "site"
    for directory in (pages, site):
        shutil.rmtree(directory, ignore_errors=True)
    pages.mkdir(parents=True)
    copy_pages(pages)
    (pages / "reference" / "commands.md").write_text(command_reference(), encoding="utf-8")
    (pages / "reference" / "python.md").write_text(python_reference(), encoding="utf-8")
    config = place / "mkdocs.yml"
    config.write_text(configuration(pages, site), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(config)]
    done = subprocess.run(command, cwd=place)
    if done.returncode or not (site / "index.html").is_file():
        raise SystemExit(done.returncode or 1)
    for page in site.rglob("*.html"):
        _use_own_shim(page, site)
    return site


def _use_own_shim(page: Path, site: Path) -> None:
    """Put the shim of this folder where the generator names one of the network. Raises
    ``SystemExit`` for anything else that a browser would fetch from elsewhere.
    """
    own = site / "assets" / "javascripts" / SHIM.name
    shutil.copy(SHIM, own)
    place = "../" * (len(page.relative_to(site).parts) - 1) + own.relative_to(site).as_posix()
    place = f"/{place}" if page.name == "404.html" else place
    text = page.read_text("utf-8").replace("https://unpkg.com/iframe-worker/shim", place)
    page.write_text(text, encoding="utf-8")
    if fetched := _FETCHED.findall(text):
        raise SystemExit(f"{page}: fetches {', '.join(fetched)}")
