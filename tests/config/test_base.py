"""Loading, overriding and writing configurations: what is merged and what is replaced, the usual
mistakes, how they are told, and to whom they are laid.
"""

import copy
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field, model_validator

from road_ray.config import (
    Config,
    InvalidConfig,
    flatten,
    load,
    override,
    to_dict,
    to_yaml,
)
from road_ray.config.base import beside_file
from road_ray.errors import ConfigError


class Weighting(Config):
    rule: Literal["mean", "correctness", "confidence"] = "correctness"
    wrong: float = Field(0.75, ge=0, le=1)
    """The weight of a teacher that is wrong."""


class Optimizer(Config):
    peak_lr: float = Field(1e-4, gt=0)
    betas: tuple[float, float] = (0.9, 0.999)
    warmup_steps: int = Field(100, ge=0)


class Distillation(Config):
    temperature: float = Field(1.0, gt=0)
    kd_weight: float = Field(0.5, ge=0, le=1)
    teachers: list[Path] = Field(default_factory=list)


class Range(Config):
    low: float = 0.0
    high: float = 1.0

    @model_validator(mode="after")
    def _ordered(self):
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) must not be above high ({self.high})")
        return self


class Example(Config):
    name: str = "run"
    seed: int = 0
    deterministic: bool = True
    weighting: Weighting = Weighting()
    optimizer: Optimizer = Optimizer()
    distillation: Distillation | None = Distillation()
    scores: dict[str, float] = Field(default_factory=dict)
    init: Path | None = None
    note: str | None = None
    layers: Literal["all"] | int | tuple[int, ...] | None = None
    names: tuple[str, ...] = ()
    either: str | tuple[str, ...] = ""
    weights: Literal["balanced"] | dict[str, Annotated[float, Field(ge=0)]] | None = None
    file: Annotated[str, beside_file()] = ""
    span: Range = Range()
    spans: list[Range] = Field(default_factory=list)
    table: dict[str, int] = Field(default_factory=dict)
    union: int | Range = 1


class Needy(Config):
    task: str
    optimizer: Optimizer


Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes ``my.yaml`` into the working directory and gives its relative path."""
    monkeypatch.chdir(tmp_path)

    def write_text(text: str) -> Path:
        Path("my.yaml").write_text(text, encoding="utf-8")
        return Path("my.yaml")

    return write_text


def _mistakes(kind: type[Config] = Example, **sources: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(kind, **sources)
    assert caught.value.exit_code == 2
    text = str(caught.value)
    assert "Traceback" not in text
    assert "pydantic" not in text
    assert text.startswith("error[CONFIG] ")
    assert text.endswith("nothing was started; no file was changed")
    return text


def test_the_layout_of_a_mistake(write: Write) -> None:
    assert _mistakes(path=write("\nweighting:\n  wrong: 1.5\n")) == (
        "error[CONFIG] my.yaml:3  weighting.wrong = 1.5\n"
        "    allowed: 0 <= value <= 1\n"
        "    meaning: The weight of a teacher that is wrong.\n"
        "    fix: use a value that is allowed (default: 0.75)\n"
        "  nothing was started; no file was changed"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("distillation: {temperature: 0}", "allowed: value > 0"),
        ("weighting: {rule: corectness}", "fix: did you mean 'correctness'?"),
        ("optimizer: {warmup_steps: -1}", "allowed: a whole number, value >= 0"),
        ("optimizer: {warmup_steps: '4'}", 'warmup_steps = "4"\n    allowed: a whole number'),
        ("optimizer: {peak_lr: fast}", 'optimizer.peak_lr = "fast"'),
        ("deterministic: 'true'", "allowed: true or false"),
        ("name: 0123", "name = 123\n    allowed: text"),
        ("optimizer: fast", "allowed: a section with the keys peak_lr, betas, warmup_steps"),
        ("seed: {a: 1}", "seed is given as a section"),
        (f"seed: {2**63}", "is too large"),
        ("temperature: 2", "fix: did you mean 'distillation.temperature'?"),
        ("zzz: 1", "allowed at the top level: name, seed, deterministic, weighting"),
        ("seed: !!python/object:os.system 1", "tags (!) are not accepted"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_line_key_value_and_remedy(
    write: Write, line: str, words: str
) -> None:
    text = _mistakes(path=write(f"# a comment\n\n{line}\n"))
    assert words in text
    assert "error[CONFIG] my.yaml:3  " in text
    assert text.count("error[") == 1


def test_all_mistakes_are_told_together_from_top_to_bottom(write: Write) -> None:
    path = write(
        "# head\nseed: -.inf\n\noptimizer:\n  # why\n  betas:\n    - 0.9\n    - true\n\n"
        "  peak_lr: 0\n\nweighting:\n    wrong: 2\n    rule: none\n"
    )
    text = _mistakes(base={"note": 5}, path=path, overrides=["x=1", "y", "scores.a=b"])
    places = re.findall(r"error\[CONFIG\] (\S+?)  (\S+)", text)
    assert places[:5] == [
        ("my.yaml:2", "seed"),
        ("my.yaml:8", "optimizer.betas[1]"),
        ("my.yaml:10", "optimizer.peak_lr"),
        ("my.yaml:13", "weighting.wrong"),
        ("my.yaml:14", "weighting.rule"),
    ]
    for where in ("preset  note = 5", "override 'x=1'  x = 1", "override 'y'  has no '='"):
        assert f"error[CONFIG] {where}" in text
    assert "override 'scores.a=b'  scores.a = \"b\"" in text
    assert "9 mistakes; nothing was started" in text


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sed", "seed"),
        ("warmup_steps", "optimizer.warmup_steps"),
        ("warmup_setps", "optimizer.warmup_steps"),
        ("optimiser.peak_lr", "optimizer.peak_lr"),
        ("optimizer.peek_lr", "optimizer.peak_lr"),
        ("optimizer.seed", "seed"),
        ("optimiser.peek_lr", "optimizer.peak_lr"),
        ("optimise.zzz", "optimizer"),
        ("optimizer.epsilon", ""),  # none that is near
    ],
)
def test_the_nearest_key_is_suggested_with_its_whole_name(key: str, meant: str) -> None:
    fix = f"did you mean {meant!r}?" if meant else f"remove {key!r}, or use a name from above; the"
    assert f"fix: {fix}" in _mistakes(overrides={key: 1})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("seed", True, "seed = true"),
        ("distillation.temperature", False, "temperature = false"),
        ("optimizer.betas", [0.9, True], "betas[1] = true"),
        ("scores", {"a": True}, "scores.a = true"),
        ("layers", [True], "layers[0] = true"),
        *(
            ("deterministic", value, "allowed: true or false")
            for value in ("no", "yes", 0, 1, None)
        ),
        *(("seed", value, "seed = ") for value in ("4", 1.5, "many")),
        *(("optimizer.peak_lr", value, "peak_lr = ") for value in (float("nan"), "nan", "-inf")),
    ],
)
def test_nothing_is_converted_silently(key: str, value: Any, words: str) -> None:
    assert words in _mistakes(overrides={key: value})


@pytest.mark.parametrize(("value", "expected"), [("5e-5", 5e-5), (2, 2.0)])
def test_a_float_takes_scientific_text_and_whole_numbers(value: Any, expected: float) -> None:
    read = load(Example, base={"optimizer": {"peak_lr": value}}).optimizer.peak_lr
    assert (read, type(read)) == (expected, float)
    assert load(Example, base={"seed": 1e4}).seed == 10_000


def test_a_required_key_that_nobody_set_is_told(write: Write) -> None:
    text = _mistakes(Needy, path=write("optimizer: {}\n"))
    assert "error[CONFIG] my.yaml  task is not set\n    allowed: text" in text
    assert "optimizer is not set" in _mistakes(Needy, overrides=["task=a"])


@pytest.mark.parametrize(
    "content",
    ["", "# nothing\n", "---\n", "null\n", "\ufeff", "optimizer:\nweighting: ~\n"],
)
def test_an_empty_file_or_section_changes_nothing(write: Write, content: str) -> None:
    base = {"optimizer": {"peak_lr": 1.0}}
    assert load(Example, base=base, path=write(content)).optimizer.peak_lr == 1.0


def test_null_turns_an_optional_section_off(write: Write) -> None:
    assert load(Example, path=write("distillation: null\n")).distillation is None
    assert load(Example, overrides=["distillation=null"]).distillation is None
    back = load(Example, path=write("distillation: null\n"), overrides=["distillation.kd_weight=1"])
    assert back.distillation == Distillation(kd_weight=1.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("optimizer.peak_lr", "fix: write optimizer.peak_lr=VALUE"),
        ("=1", "is not a key"),
        ("optimizer..peak_lr=1", "is not a key"),
        ("seed=[1,", "is not valid YAML"),
    ],
)
def test_a_mistake_in_an_override_repeats_the_override(text: str, words: str) -> None:
    result = _mistakes(overrides=[text])
    assert f"error[CONFIG] override {text!r}  " in result
    assert words in result


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("optimizer.peak_lr=5e-5", "optimizer.peak_lr", 5e-5),
        ("optimizer.peak_lr=1e-3", "optimizer.peak_lr", "1e-3"),
        ("optimizer.betas=[0.8, 0.9]", "optimizer.betas", (0.8, 0.9)),
        ("deterministic=false", "deterministic", "false"),
        ("deterministic=false", "deterministic", False),
        ("seed = 7", "seed", 7),
        ("seed=3", "seed", numpy.int64(3)),
        ("optimizer.peak_lr=0.5", "optimizer.peak_lr", numpy.float32(0.5)),
        ("name=123", "name", "123"),
        ("name=a: b # c", "name", "a: b # c"),
        ("name='a'", "name", "a"),
        ("note=", "note", None),
        ("init=2024", "init", Path("2024")),
        ("distillation.teachers=[a, b]", "distillation.teachers", [Path("a"), Path("b")]),
        ("scores.new=0.5", "scores", {"new": 0.5}),
        ("weighting={wrong: 0.25}", "weighting", Weighting(wrong=0.25)),
    ],
)
def test_an_override_as_text_and_as_a_value_agree(text: str, name: str, value: Any) -> None:
    from_text = load(Example, overrides=[text])
    assert from_text == load(Example, overrides={name: value})
    assert from_text == override(Example(), {name: value})
    assert from_text != Example() or value is None


def test_relative_paths_stay_and_home_is_expanded(write: Write) -> None:
    config = load(Example, path=write("init: a/b\ndistillation: {teachers: [~/t]}\n"))
    assert config.init == Path("a/b")
    assert config.distillation is not None
    assert config.distillation.teachers == [Path.home() / "t"]
    with pytest.raises(InvalidConfig, match="home of a user"):
        load(Example, overrides={"init": "~nosuchuser/a"})
    with pytest.raises(InvalidConfig, match="is an address"):  # was a local directory named s3:
        load(Example, overrides={"init": "s3://bucket/a"})


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_PATHS = st.text(string.ascii_letters + "./ -", min_size=1, max_size=12).map(Path)
_EXAMPLES = st.builds(
    Example,
    name=_TEXT | st.sampled_from(["no", "5e-5", "0123", "null", "true", "~", "a: b", "2026-01-02"]),
    seed=st.integers(-(2**63), 2**63 - 1),
    deterministic=st.booleans(),
    weighting=st.builds(Weighting, wrong=st.floats(0, 1)),
    optimizer=st.builds(Optimizer, peak_lr=st.floats(0, 1e300, exclude_min=True)),
    distillation=st.none() | st.builds(Distillation, teachers=st.lists(_PATHS, max_size=3)),
    scores=st.dictionaries(_TEXT, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    init=st.none() | _PATHS,
    note=st.none() | _TEXT,
)


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(config=_EXAMPLES)
def test_what_is_written_is_read_back_equal(write: Write, config: Example) -> None:
    path = write(to_yaml(config))
    assert load(Example, path=path) == config
    assert load(Example, base=to_dict(config)) == config


@pytest.mark.parametrize("wrong", [-0.1, 2, float("nan"), float("inf"), True, "inf", "a", None])
def test_only_weights_between_0_and_1_are_taken(wrong: Any) -> None:
    assert "allowed: 0 <= value <= 1" in _mistakes(overrides={"weighting.wrong": wrong})


def test_a_text_that_is_no_name_of_a_file_is_left_to_its_reader(write: Write) -> None:
    assert load(Example, path=write(f"file: {'a' * 300}\n")).file == "a" * 300
    assert load(Example, path=write("file: my.yaml\n")).file == str(Path.cwd() / "my.yaml")


def test_mistakes_survive_the_way_between_processes() -> None:
    with pytest.raises(InvalidConfig) as caught:
        load(Example, overrides=["seed=x"])
    arrived = copy.deepcopy(caught.value)  # goes the way of pickling
    assert str(arrived) == str(caught.value)
    assert arrived.problems == caught.value.problems


def test_flatten_joins_keys_with_dots_and_leaves_empty_mappings_out():
    tree = {"a": {"b": 1}, "c.d": 2, "e": {}}
    assert flatten(tree) == {"a.b": 1, "c.d": 2}
    assert flatten(tree, keep_empty=True) == {"a.b": 1, "c.d": 2, "e": {}}


def test_sections_and_dicts_are_merged_and_lists_are_replaced() -> None:
    base = {"span": {"low": 0.1}, "table": {"a": 1, "b": 2}, "spans": [{"low": 0}, {"low": 0.5}]}
    above = {"span": {"high": 0.9}, "table": {"b": 3}, "spans": [{"high": 2}]}
    before = copy.deepcopy(base)
    config = load(Example, base=base, overrides=above)
    assert config.span == Range(low=0.1, high=0.9)
    assert config.table == {"a": 1, "b": 3}
    assert config.spans == [Range(high=2)]
    assert base == before


@pytest.mark.parametrize(
    ("base", "overrides", "where"),
    [
        ({"seed": "x"}, {"table": {"a": 1}}, "preset"),
        ({"seed": "x"}, {"seed": "y"}, "override"),
        ({"table": {"a": "x"}}, {"table": 1}, "override"),
        ({"spans": [{"low": "x"}]}, {}, "preset"),
        ({"span": {"low": 3}}, {}, "preset"),
        *(({"union": value}, {}, "preset") for value in ("x", None)),
    ],
)
def test_a_mistake_is_one_and_laid_to_the_source_that_made_it(base, overrides, where) -> None:
    with pytest.raises(InvalidConfig) as caught:
        load(Example, base=base, overrides=overrides)
    (problem,) = caught.value.problems
    assert problem.where.startswith(where)


def test_a_later_value_mends_an_earlier_mistake() -> None:
    changes = {"seed": 1, "table": {"a": 1}}
    mended = load(Example, base={"seed": "x", "table": 3}, overrides=changes)
    assert mended == Example(seed=1, table={"a": 1})


def test_a_section_that_is_changed_keeps_what_its_owner_has_by_default():
    class Middle(Config):
        span: Range = Range()
        other: int = 0

    class Outer(Config):
        first: Middle = Middle(span=Range(low=5, high=6))
        two: Middle = Middle(other=3)

    changed = load(Outer, overrides=["first.span.high=7", "two.span.high=8"])
    assert changed.first.span == Range(low=5, high=7)
    assert changed.two == Middle(span=Range(high=8), other=3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("names=a,b", ("a", "b")),
        ("names=a", ("a",)),
        ("names=[a, b]", ("a", "b")),
        ("layers=0,5", (0, 5)),
        ("layers=3", 3),
        ("layers=all", "all"),
        ("either=a,b", ("a", "b")),
        ("either=a", "a"),
    ],
)
def test_a_list_needs_no_brackets_on_the_command_line(text, value):
    """Shells such as zsh take [a,b] for a pattern of file names."""
    assert getattr(load(Example, overrides=[text]), text.partition("=")[0]) == value


def test_quoted_text_is_no_list():
    with pytest.raises(InvalidConfig, match="write a list"):
        load(Example, overrides=["names='a,b'"])


def test_a_mistake_in_a_mapping_that_may_be_a_word_is_told_once_by_its_key():
    with pytest.raises(InvalidConfig) as caught:
        load(Example, overrides=["weights={a: -1, b: 2}"])
    (problem,) = caught.value.problems
    assert problem.message.startswith("weights.a = -1\n    allowed: value >= 0")
