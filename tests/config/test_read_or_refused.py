"""Every key of every verb is read by it or refused: none is accepted and without effect."""

import ast
from pathlib import Path

import pytest

import road_ray
from road_ray.config import flatten, to_dict
from road_ray.config.schema import known_keys, schema_of
from road_ray.errors import ConfigError
from road_ray.verbs import VERBS, configure

# verb, further overrides, an override of a key that has no effect there, what to do instead
_PLACES = ("workers=2", "min_workers=1", "gpus_per_worker=1")
REFUSED = [
    *[
        (verb, more, key, "max_concurrent")
        for verb, *more in (["teachers"], ["finetune", "num_seeds=2"], ["reproduce"])
        for key in (*_PLACES, "address=host:6379")
    ],
    ("finetune", ("pool={rte: {}}",), "workers=2", "max_concurrent"),
    ("finetune", (), "address=host:6379", "workers"),
    ("pretrain", ("workers=1",), "min_workers=2", "more than workers = 1"),
    *[("demo", (), key, "leave") for key in _PLACES],
    *[("evaluate", (), key, "leave") for key in (*_PLACES, "seed=1", "tracking.tensorboard=true")],
    *[(verb, (), "min_workers=1", "workers") for verb in ("pretrain", "multitask", "distill")],
]
TAKEN = [
    ("teachers", ("max_concurrent=2", "gpus_per_worker=0.5")),
    ("finetune", ("num_seeds=2", "max_concurrent=2", "gpus_per_worker=1")),
    ("finetune", ("workers=2", "min_workers=1", "gpus_per_worker=1")),
    ("reproduce", ("max_concurrent=2", "gpus_per_worker=1")),
    ("finetune", ("workers=2", "address=host:6379")),
    ("distill", ("address=host:6379",)),  # of its teachers
    ("pretrain", ("address=host:6379",)),  # of the corpus
    ("reproduce", ("tracking.tensorboard=true",)),
    ("demo", ("tracking.tensorboard=true",)),
]


@pytest.mark.parametrize(("verb", "others", "override", "remedy"), REFUSED)
def test_a_key_without_effect_is_refused_with_what_to_do(verb, others, override, remedy):
    key = override.partition("=")[0].partition(".")[0]
    with pytest.raises(ConfigError) as refused:
        configure(verb, overrides=[*others, override])
    text = str(refused.value)
    assert f"override '{override}'" in text
    assert key in text
    assert remedy in text


@pytest.mark.parametrize(("verb", "overrides"), TAKEN)
def test_keys_with_an_effect_are_taken(verb, overrides):
    values = flatten(to_dict(configure(verb, overrides=overrides)))
    for override in overrides:
        key, _, value = override.partition("=")
        assert str(values[key]).lower() in (value, f"{value}.0")


def _read_in(path: Path) -> set[str]:
    """Return the names of attributes, parameters and texts of a module, and fields of classes that
    are no configuration.
    """
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= set(node.value.split("."))
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and path.name != "config.py":
            names.add(getattr(node.target, "id", ""))
    return names


def test_every_key_is_read_by_some_module():
    """A key that nothing reads is one that is accepted and ignored."""
    names = set().union(*map(_read_in, Path(road_ray.__file__).parent.rglob("*.py")))
    keys = {key for verb in VERBS.values() for key in known_keys(schema_of(verb.config))}
    assert [key for key in sorted(keys) if key.rpartition(".")[2] not in names] == []
