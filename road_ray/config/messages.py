"""Messages for mistakes in a configuration: value seen, what is allowed, nearest name, remedy."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from road_ray.config import schema
from road_ray.config.schema import Key, Node, at, format_key, format_value
from road_ray.config.secrets import masked
from road_ray.errors import ConfigError, Problem, nearest

# The last part of our key, by the name of the same setting in transformers' Trainer and PyTorch.
_NAMES_ELSEWHERE = {
    "learning_rate": "peak_lr",
    "lr": "peak_lr",
    "num_train_epochs": "epochs",
    "num_epochs": "epochs",
    "max_steps": "steps",
    "per_device_train_batch_size": "batch_size",
    "gradient_accumulation_steps": "passes",
    "max_seq_length": "max_length_tokens",
    "max_length": "max_length_tokens",
    "warmup_ratio": "warmup_steps",
    "model_name_or_path": "init",
    "output_dir": "run_dir",
}


class InvalidConfig(ConfigError):
    """All mistakes of one configuration together; ``problems`` lists them, ``str`` renders them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(
            Problem(masked(problem.where), masked(problem.message), masked(problem.remedy))
            for problem in problems
        )
        super().__init__(self.problems)  # the only argument, so that it survives pickling

    def __str__(self) -> str:
        blocks = [f"error[{self.kind}] {problem}" for problem in self.problems]
        count = f"{len(blocks)} mistakes; " if len(blocks) > 1 else ""
        return "\n".join([*blocks, f"  {count}nothing was started; no file was changed"])


def unknown_key(kind: type[BaseModel], key: Key, value: object, where: str) -> Problem:
    """Return the problem of a key that does not exist, with the nearest one that does."""
    noun = "section" if isinstance(value, Mapping) else "key"
    head = format_key(key) if noun == "section" else f"{format_key(key)} = {format_value(value)}"
    parent = max((key[:n] for n in range(len(key)) if at(kind, key[:n]) is not None), key=len)
    names = list(schema.properties(at(kind, parent) or {}))
    place = f"in section {format_key(parent)!r}" if parent else "at the top level"
    known = f"no such {noun}\n    allowed {place}: {', '.join(names) or 'no keys'}"
    keys = list(schema.known_keys(schema.schema_of(kind)))
    near = next(iter(nearest_keys(format_key(key), keys)), None)
    meaning = (at(kind, tuple(near.split("."))) or {}).get("description") if near else None
    known += f"\n    meaning: {near}: {meaning}" if meaning else ""
    unlike = f"remove {format_key(key)!r}, or use a name from above; the changelog has removed ones"
    remedy = f"did you mean {near!r}?" if near else unlike
    if not parent and "overrides" in names:  # a file of a sweep
        remedy += f" (a key of the verb belongs under 'overrides': {{{format_key(key)}: ...}})"
    return Problem(where, f"{head}\n    {known}", remedy)


def nearest_keys(key: str, known: Iterable[str]) -> list[str]:
    """Return the keys that were probably meant, the likeliest first: those whose last name is that
    of ``key``, the one for it here of a setting of other libraries, or most like it; similar keys
    whose last name is similar too; a section that is similar to that of ``key``.
    """
    keys = [k for k in dict.fromkeys(known) if k != key]
    first, given = key.partition(".")[0], key.rpartition(".")[2]
    last = _NAMES_ELSEWHERE.get(nearest(given, _NAMES_ELSEWHERE, 0.9) or given, given)
    last = nearest(last, [k.rpartition(".")[2] for k in keys], 0.75) or last
    found = [k for k in keys if k.rpartition(".")[2] == last]
    if "." in key:  # the one in a similar section first
        found.sort(key=lambda k: -difflib.SequenceMatcher(None, k, key).ratio())
    similar = difflib.get_close_matches(key, keys, 3, 0.75)
    found += [k for k in similar if nearest(given, [k.rpartition(".")[2]])]
    section = nearest(first, [k for k in keys if "." not in k])
    return list(dict.fromkeys([*found, *([section] if section not in (None, first) else [])]))


def invalid_value(kind: type[BaseModel], key: Key, error: Mapping[str, Any], where: str) -> Problem:
    """Return the problem of a value that its field refuses, or of one that is not set; pydantic
    gives ``error``.
    """
    node, value, words = at(kind, key) or {}, error["input"], message_of(error)
    if error["type"] == "missing":
        allowed = f"\n    allowed: {schema.allowed(node)}{_meaning(node)}"
        return Problem(where, f"{format_key(key)} is not set{allowed}", f"set {format_key(key)}")
    own_words = error["type"] in ("value_error", "assertion_error")
    if own_words and (not key or schema.properties(node)):
        text, _, remedy = words.partition("\n    fix: ")
        name = f"{format_key(key)}: " if key else ""
        return Problem(where, f"{name}{text}", remedy or "change one of the values it names")
    head = f"{format_key(key)} = {format_value(value)}"
    if isinstance(value, Mapping):
        head = f"{format_key(key)} is given as a section ({', '.join(map(str, value))})"
    # A field's own message is more precise than a description of its type.
    text, _, remedy = words.partition("\n    fix: ") if own_words else ("", "", "")
    head += f"\n    {text}" if text else ""
    if not ("allowed:" in text or "known:" in text):
        head += f"\n    allowed: {schema.allowed(node)}"
    default = schema.default_of(node)
    usual = "" if default in (None, schema.UNSET) else f" (default: {format_value(default)})"
    return Problem(where, head + _meaning(node), remedy or _remedy(node, value, usual))


def message_of(error: Mapping[str, Any]) -> str:
    """Return the message of an error of pydantic, without the kind of the exception before it."""
    return str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _meaning(node: Node) -> str:
    return f"\n    meaning: {node['description']}" if node.get("description") else ""


def _remedy(node: Node, value: object, default: str) -> str:
    if schema.properties(node):
        return f"write its keys below it, e.g. {next(iter(schema.properties(node)), '...')}"
    if isinstance(value, str) and "array" in schema.types(node):
        return f"write a list: [{value}]"
    if near := nearest(str(value), [str(choice) for choice in schema.choices(node)]):
        return f"did you mean {near!r}?"
    return "use a value that is allowed" + default
