"""Reading YAML: plain values with lines, and refusals for whatever is not plain."""

from pathlib import Path

import pytest

from road_ray.config.messages import InvalidConfig
from road_ray.config.yaml_files import read_yaml


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "my.yaml"


def test_values_follow_yaml_1_2(file: Path) -> None:
    file.write_text("a: 5e-5\nb: no\nc: 0123\nd: 2026-01-02\ne: ~\nf: 0o17\ng: true\n1: x\n")
    expected = {"a": 5e-5, "b": "no", "c": 123, "d": "2026-01-02", "e": None, "f": 15, "g": True}
    assert read_yaml(file).values == expected | {"1": "x"}


def test_anchors_may_be_merged_and_set_anew(file: Path, recwarn: pytest.WarningsRecorder) -> None:
    file.write_text("a: &one {x: 1, y: 2}\nb:\n  <<: *one\n  y: 3\nc: &one 2\nd: *one\n")
    values = {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": 2, "d": 2}
    assert read_yaml(file).values == values
    assert not recwarn.list


_BOMB = ["l0: &l0 [lol]"] + [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 10)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a:\n  b: 1\n\n  b: 2\n", 'found duplicate key "b"'),
        *(
            (f"a: 1\nb: {tag} [x]\n", "my.yaml:2  is not valid YAML: could not determine")
            for tag in ("!!python/object:os.system", "!!python/name:os.system", "!mine")
        ),
        ("\n".join(_BOMB), "once its aliases are expanded"),
        ("a: &a [*a]\n", "nested deeper"),
        *(("a: " + "[" * depth + "]" * depth, "nested deeper") for depth in (60, 500)),
        ("a: 1\n" * 300_000, "too large"),
        ("a:\n\tb: 1\n", "fix: check quotes, colons and indentation; tabs"),
        ("a: 1\n\nb: [1, 2]]\n", "my.yaml:3  is not valid YAML"),
        ("a: 1\n---\nb: 2\n", "is not valid YAML"),
        ("- a\n", "my.yaml  holds a list\n    allowed: a mapping"),
        ("hello\n", "my.yaml  holds 'hello'"),
        (b"a: 1\nb: \xff\n", "my.yaml:2  is not UTF-8 (byte 0xff)"),
        (b"a: \x00\n", "is not valid YAML"),
        *(
            (f"a: {value}\nb: 2\n", "is not valid YAML: ")
            for value in ("!!int x", "!!int", "9" * 5000, "!!float a", "!!bool 7")
        ),
        ("a: *b\n", "undefined alias"),
        ("a: 1\n[[b]]: 2\n", "my.yaml  is not valid YAML: line 2: a key is a list or a mapping"),
    ],
)
def test_what_is_no_plain_mapping_is_refused(file: Path, content: str | bytes, words: str) -> None:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidConfig) as caught:
        read_yaml(file)
    assert words in str(caught.value)


@pytest.mark.parametrize("content", ["text label " * 99 + "\n", "a,b\n'c',d\n", "\xff"])
def test_a_data_file_is_told_from_a_configuration(tmp_path: Path, content: str) -> None:
    path = tmp_path / "one.csv"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidConfig) as caught:
        read_yaml(path)
    seen = str(caught.value)
    assert f"fix: this is data, not a configuration: run `road init {path}`" in seen
    assert f"add data.corpus={path} to `road pretrain`" in seen
    assert seen.count("label") < 9


def test_a_missing_file_names_its_neighbours_and_a_directory_is_none(file: Path) -> None:
    file.with_name("mine.yaml").write_text("")
    with pytest.raises(InvalidConfig, match=r"fix: check the path; YAML files here: mine\.yaml"):
        read_yaml(file)
    with pytest.raises(InvalidConfig, match="cannot be read"):
        read_yaml(file.parent)
