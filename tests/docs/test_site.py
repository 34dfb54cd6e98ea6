"""The documentation site builds without warnings and asks nothing of a network."""

import re

import pytest

from tests.docs.blocks import ROOT
from tools.site import build as site

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("zensical")
    return site.build(tmp_path_factory.mktemp("build"))


def test_every_page_is_on_the_site_and_in_its_navigation(built):
    pages = [p.relative_to(ROOT / "docs").with_suffix(".html") for p in ROOT.glob("docs/**/*.md")]
    pages = [str(page).replace("README", "index") for page in pages]
    index = (built / "index.html").read_text("utf-8")
    assert [page for page in pages if not (built / page).is_file()] == []
    assert [page for page in pages if f'href="./{page}"' not in index] == []


def test_references_are_generated(built):
    commands = (built / "reference" / "commands.html").read_text("utf-8")
    python = (built / "reference" / "python.html").read_text("utf-8")
    for name in ("road distill", "road data store", "road submit"):
        assert f'id="{name.replace(" ", "-")}"' in commands
    assert "kd_weight" in python
    assert 'id="road_rayensemble"' in python


def test_every_code_block_is_rendered_as_one(built):
    fences = [page.name for page in built.rglob("*.html") if "```" in page.read_text("utf-8")]
    assert fences == []


def test_nothing_is_fetched(built):
    urls = set()
    for page in built.rglob("*.html"):
        urls |= set(site._FETCHED.findall(page.read_text("utf-8")))
    assert urls == set()
    assert (built / "search.js").stat().st_size > 10_000  # the index, which file:// can load


def test_a_broken_link_is_an_error(tmp_path, monkeypatch):
    pytest.importorskip("zensical")
    real = site.copy_pages

    def copied(place):
        real(place)
        with (place / "guides" / "sweeps.md").open("a", encoding="utf-8") as page:
            page.write("\n[gone](gone.md)\n")

    monkeypatch.setattr(site, "copy_pages", copied)
    with pytest.raises(SystemExit):
        site.build(tmp_path / "build")


def test_links_hold_on_the_site(tmp_path):
    text = "[a](../architecture.md#x) [`b`](../../road_ray/verbs.py) [c](../../README.md)\n"
    page = tmp_path / "guides" / "sweeps.md"
    made = site.relinked(text, ROOT / "docs" / "guides" / "sweeps.md", page, tmp_path)
    assert made == "[a](../architecture.md#x) `b` [c](../index.md)\n"
    code = "```\n[a](../../road_ray/verbs.py)\n```\n"
    assert site.relinked(code, ROOT / "docs" / "guides" / "sweeps.md", page, tmp_path) == code
    assert re.search("unpkg", site.SHIM.read_text("utf-8")) is None
