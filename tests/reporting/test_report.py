"""Pages by path, and in a real browser without a network."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from road_ray.errors import ConfigError
from road_ray.reporting.pages.page import render
from road_ray.reporting.pages.sweep_page import sweep_page
from road_ray.reporting.records.run_record import read_run
from road_ray.reporting.records.sweep_record import Sweep
from road_ray.reporting.report import page_of, report, write_report
from tests.sweeps import study_of

EVIL = "<script>alert(1)</script>"


def test_what_lies_there_decides(run_directory, sweep_directory, write_run, tmp_path):
    assert page_of([run_directory]).kicker == "road distill"
    assert page_of([sweep_directory]).kicker == "road sweep"
    other = write_run(tmp_path / "student-2", seed=2)
    assert page_of([tmp_path]).about.startswith("2 runs in 1 group;")
    assert page_of([run_directory, other]).title == "Comparison"


def test_the_seeds_of_a_finetuning_are_compared(write_run, tmp_path):
    """Each fine-tuning stood as one run, without deviation and test."""
    for name in ("a", "b"):
        for seed in (0, 1):
            run = write_run(tmp_path / name / "sst2" / f"seed-{seed}", seed=seed)
        for file in ("config.resolved.yaml", "metrics.json", "environment.json"):
            shutil.copy(run / file, tmp_path / name)
        config = tmp_path / name / "config.resolved.yaml"
        config.write_text(f"num_seeds: 2\npool: {{}}\ninit: {name}\n")
    assert read_run(tmp_path / "a").verb == "finetune"
    assert page_of([tmp_path / "a", tmp_path / "b"]).about.startswith("4 runs in ")


def test_a_folder_without_runs_is_refused_before_anything_is_written(tmp_path, caplog):
    for paths in ([tmp_path], [tmp_path, tmp_path], [tmp_path / "typo"]):
        with pytest.raises(ConfigError, match="no run, sweep or folder"):
            report(paths)
    write_report(tmp_path / "gone")  # does not take the run with it
    assert "no report.html" in caplog.text
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """A headless Chromium that can reach nothing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    arguments = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    with playwright.sync_playwright() as driver:
        names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        places = [driver.chromium.executable_path, *map(shutil.which, names)]
        path = next((place for place in places if place and Path(place).is_file()), None)
        if path is None:
            pytest.skip("no Chromium: run `playwright install chromium`")
        result = driver.chromium.launch(executable_path=path, args=arguments)
        yield result
        result.close()


@pytest.fixture
def opened(browser):
    """``opened(file, width)``: the page; what it logs, asks for or alerts fails the test."""
    trouble: list[str] = []

    def open_page(path: Path, width: int, scheme: str = "light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append("an alert"))
        page.on("request", lambda request: trouble.append(request.url))
        page.goto(path.as_uri())
        assert trouble.pop(0) == path.as_uri()
        return page

    yield open_page
    assert trouble == []


@pytest.fixture(scope="module")
def pages(sweep_directory, write_run, tmp_path_factory) -> dict[str, Path]:
    """A page of each kind; the task of one run is called like a script."""
    folder = tmp_path_factory.mktemp("pages")
    run = write_run(folder / "runs" / "student-1", seed=1, data={"dataset": EVIL}, init=EVIL)
    write_run(folder / "runs" / "none-1", seed=1, distillation={})
    return {
        "run": report([run], folder / "run.html")[0],
        "sweep": report([sweep_directory], folder / "sweep.html")[0],
        "comparison": report([folder / "runs"], folder / "comparison.html")[0],
    }


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["run", "sweep", "comparison"])
def test_the_page_fits_its_window_in_a_browser(opened, pages, kind, width):
    page = opened(pages[kind], width, "dark" if kind == "sweep" else "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    drawn = "[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect().width)"
    smallest = min(page.evaluate(drawn))
    assert smallest > 250
    columns = page.evaluate("getComputedStyle(document.querySelector('.grid')).gridTemplateColumns")
    assert len(columns.split()) == (3 if width == 1280 else 1)
    shot = page.screenshot(full_page=True)
    assert len(shot) > 20_000  # blank paper is smaller


@pytest.mark.slow
def test_trials_sort_and_filter_here_and_in_the_figures(opened, pages):
    page = opened(pages["sweep"], 1280)

    def column(number: int) -> list[str]:
        return page.locator(f"table.live tbody tr:visible td:nth-child({number})").all_inner_texts()

    assert column(1) == [str(n) for n in range(12)]
    heading = page.locator("table.live th", has_text="eval/squad_v2/f1")
    heading.click()
    values = [float(text.split()[0]) for text in column(3)[:-1]]
    assert values == sorted(values)
    assert column(2)[-1] == "failed"  # what has no value stands last, both ways
    heading.click()
    assert [float(text.split()[0]) for text in column(3)[:-1]] == values[::-1]
    assert heading.get_attribute("aria-sort") == "descending"

    page.fill(".filter", "complete wrong>0.5")
    assert sorted(int(number) for number in column(1)) == [3, 7]
    assert page.inner_text(".found") == "2 of 12 rows"
    visible = page.locator("figure:first-of-type svg a:not(.off)")
    assert {mark.get_attribute("xlink:href") for mark in visible.all()} == {"#trial-3", "#trial-7"}


@pytest.mark.slow
def test_a_trial_lights_up_everywhere(opened, pages):
    page = opened(pages["sweep"], 1280)
    page.locator("svg a[*|href='#trial-3'] use").first.hover(force=True)
    assert page.locator("tr.lit").get_attribute("id") == "trial-3"
    assert page.locator("svg .lit").count() > 4
    assert "trial: 3" in page.inner_text("#hint")


@pytest.mark.slow
def test_a_thousand_trials_are_there_in_time(browser, tmp_path):
    """Over six keys, each with a curve of 48 points."""
    keys = [f"section.key_{n}" for n in range(6)]
    trials = [
        ({key: (number * (n + 3) % 997) / 997 for n, key in enumerate(keys)}, [number % 89 + 1 / 9])
        for number in range(1000)
    ]
    curve = {step: step / 7 for step in range(48)}
    sweep = Sweep(study_of(trials, ["eval/squad_v2/f1"], intermediate_values=curve), Path("large"))
    path = tmp_path / "report.html"
    path.write_text(render(sweep_page(sweep)))
    assert path.stat().st_size < 4e6
    # What the page's own thread computes until all is there, however busy the machine is.
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(path.as_uri())
    figures = session.send("Performance.getMetrics")["metrics"]
    (seconds,) = [figure["value"] for figure in figures if figure["name"] == "TaskDuration"]
    print(f"the page of a thousand trials: {seconds:.2f} s of computing, {path.stat().st_size:,} B")
    assert 0 < seconds < 2.0
    page.fill(".filter", "key_0<0.5")
    remaining = sum(keys["section.key_0"] < 0.5 for keys, _ in trials)
    assert page.inner_text(".found") == f"{remaining} of 1000 rows"
