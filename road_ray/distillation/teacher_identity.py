"""Identity of a teacher: what decides its answers, as hashes. Tokenizers are compared by content,
weights and configuration by hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.data.tokenizer import gives_segments, read_tokenizer
from road_ray.errors import CheckpointError
from road_ray.system.file_hashes import sha256_of
from road_ray.system.json_file import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_IDLE_FIELDS = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures")
# Entries of a teacher's manifest that decide its answers.
DECISIVE = ("weights_sha256", "config_sha256", "tokenizer_sha256", "labels", "order", "precision")
# The student's tokenizer, where a teacher with another one answers for its tokens.
ANSWERS_FOR = "answers_for_tokenizer_sha256"


def fingerprint_tokenizer(tokenizer: Any) -> str:
    """Return the sha256 of everything that determines token ids and segments: vocabulary,
    normalizer, pre-tokenizer, model, special tokens, and a pair of texts as it encodes them.
    """
    encoded = tokenizer("a", "b")
    return _fingerprint(tokenizer, encoded["input_ids"], encoded.get("token_type_ids"))


def _fingerprint(tokenizer: Any, pair: list[int], segments: list[int] | None) -> str:
    content: dict[str, Any] = {
        "pair": [pair, segments if segments and any(segments) else None],
        "vocab": sorted(tokenizer.get_vocab().items()),
        "special": {
            role: token if isinstance(token, str) else [str(part) for part in token]
            for role, token in sorted(tokenizer.special_tokens_map.items())
            if role != "additional_special_tokens"
        },
    }
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        content["lower"] = getattr(tokenizer, "do_lower_case", None)
    else:  # truncation and padding are left out: they change with every call
        parts = json.loads(backend.to_str())
        content["parts"] = [parts[name] for name in ("normalizer", "pre_tokenizer")]
        model = parts["model"]
        content["model"] = {key: model[key] for key in sorted(model) if key != "vocab"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def fingerprint_weights(directory: str | Path) -> str:
    """Return the sha256 of ``model.safetensors``; for shards, that of their names and hashes."""
    files = sorted(Path(directory).glob("*.safetensors"))
    if not files:
        raise CheckpointError(
            f"{directory}: no *.safetensors here\n  fix: save with save_pretrained"
        )
    hashes = [sha256_of(path) for path in files]
    if len(files) == 1:
        return hashes[0]
    lines = (f"{path.name} {digest}\n" for path, digest in zip(files, hashes, strict=True))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def fingerprint_config(directory: str | Path) -> str:
    """Return the sha256 of the entries of ``config.json`` that affect the outputs: equal weights in
    another shape, or with other label names, are another teacher.
    """
    content = read_json(Path(directory) / "config.json")
    decisive = {name: value for name, value in content.items() if name not in _IDLE_FIELDS}
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def decisive_entries(teacher: Mapping[str, object]) -> dict[str, Any]:
    """Return the entries of a teacher in a manifest that decide its answers."""
    entries = {name: teacher.get(name) for name in DECISIVE}
    return entries | ({ANSWERS_FOR: teacher[ANSWERS_FOR]} if teacher.get(ANSWERS_FOR) else {})


def teacher_tokenizer(directory: str | Path) -> Any | None:
    """Return the tokenizer in a teacher's directory, or None."""
    if not any(
        (Path(directory) / name).is_file()
        for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json")
    ):
        return None
    return read_tokenizer(directory)


def teacher_input_names(directory: str | Path, model: PreTrainedModel) -> tuple[str, ...]:
    """Return the names of the inputs that a teacher takes of a student's batch: no segments if its
    own tokenizer gives none.
    """
    from road_ray.models.architectures import input_names

    tokenizer, names = teacher_tokenizer(directory), input_names(model)
    if tokenizer is None or gives_segments(tokenizer):
        return names
    return tuple(name for name in names if name != "token_type_ids")


def reads_other_tokens(directory: str | Path, student: str) -> bool:
    """Return True if a teacher's tokenizer makes other rows than that of the fingerprint
    ``student``. A teacher whose own tokenizer gives no segments reads rows with segments too:
    ``Teacher`` leaves them out.
    """
    tokenizer = teacher_tokenizer(directory)
    if tokenizer is None or fingerprint_tokenizer(tokenizer) == student:
        return False
    if gives_segments(tokenizer) or not tokenizer.is_fast:
        return True
    encoded = tokenizer("a", "b")
    texts = encoded.sequence_ids(0)
    if 1 in texts:
        second = texts.index(1)
        segments = [0] * second + [1] * (len(texts) - second)
        return _fingerprint(tokenizer, encoded["input_ids"], segments) != student
    return True
