"""Who a teacher is, and whether its answers may be compared with the student's.

Tokenizers are compared by content, labels by name, weights by hash. A directory that could run code
on loading is refused before anything in it is opened by a loader.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.data.specs import Choose, Classify, Regress, Span, Tag, Task
from road_ray.errors import CheckpointError
from road_ray.json_file import read_json

_FOREIGN_FIELDS = (
    "auto_map",
    "_attn_implementation_internal",
)  # both make transformers load other code
_FOREIGN_SUFFIXES = {".py", ".pkl", ".pickle", ".bin", ".ckpt", ".h5", ".msgpack"}
_NEVER_LOADED = {"training_args.bin"}  # the Trainer leaves it; no from_pretrained reads it
_SAFE_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]
_IDLE_FIELDS = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures")
# Of a teacher's manifest: what decides its answers.
DECISIVE = ("weights_sha256", "config_sha256", "tokenizer_sha256", "labels", "order", "precision")
HEADS: dict[type, str] = {  # how the names of Hugging Face's classes end
    Span: "ForQuestionAnswering",
    Classify: "ForSequenceClassification",
    Regress: "ForSequenceClassification",
    Tag: "ForTokenClassification",
    Choose: "ForMultipleChoice",
}


def locate(name: str | Path) -> Path:
    """The local directory of a model: a model directory, a run directory (its ``hf/``), or a hub
    name.
    """
    directory = Path(name)
    if directory.is_dir():
        return directory / "hf" if (directory / "hf" / "config.json").is_file() else directory
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(name), allow_patterns=_SAFE_FILES))
    except (
        Exception
    ) as error:  # the hub's client raises dozens of types; all mean that it is not to be had
        raise CheckpointError(
            f"{name}: neither a directory nor a model of the hub that can be reached ({error})\n"
            "  fix: name a directory with config.json and model.safetensors"
        ) from error


def refuse_foreign(directory: str | Path) -> None:
    """Raises ``CheckpointError`` naming the file or field that could run code when the model is
    loaded.
    """
    directory = Path(directory)
    for path in sorted(directory.iterdir()):
        if path.suffix in _FOREIGN_SUFFIXES and path.name not in _NEVER_LOADED:
            raise CheckpointError(
                f"{path}: a file that can run code does not belong in a model directory\n"
                "  allowed: config.json, *.safetensors and tokenizer files\n"
                "  fix: remove it; convert pickled weights to safetensors in a place you trust"
            )
    for path in sorted(directory.glob("*.json")):
        if path.name.endswith("config.json"):
            for key in _keys(read_json(path)):
                if key in _FOREIGN_FIELDS:
                    raise CheckpointError(
                        f"{path}: field {key!r} makes the loader run foreign code\n"
                        "  fix: remove the field, or take an architecture that transformers has"
                    )


def fingerprint_tokenizer(tokenizer: Any) -> str:
    """The sha256 of what decides ids: vocabulary, normalizer, pre-tokenizer, model and special
    tokens.
    """
    content: dict[str, Any] = {
        "vocab": sorted(tokenizer.get_vocab().items()),
        "special": {
            role: token if isinstance(token, str) else [str(one) for one in token]
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
    """The sha256 of ``model.safetensors``; of shards the sha256 over their names and hashes."""
    files = sorted(Path(directory).glob("*.safetensors"))
    if not files:
        raise CheckpointError(
            f"{directory}: no *.safetensors here\n  fix: save with save_pretrained"
        )
    hashes = []
    for path in files:
        with path.open("rb") as file:
            hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
    if len(files) == 1:
        return hashes[0]
    lines = (f"{path.name} {digest}\n" for path, digest in zip(files, hashes, strict=True))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def fingerprint_config(directory: str | Path) -> str:
    """The sha256 of what ``config.json`` says of the computation: equal weights in another shape,
    or with other names of labels, are another teacher.
    """
    content = read_json(Path(directory) / "config.json")
    kept = {name: value for name, value in content.items() if name not in _IDLE_FIELDS}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def label_order(
    teacher_config: Any, task: Task, label_map: Mapping[str, str] | None = None
) -> tuple[int, ...] | None:
    """Where the teacher keeps each of the task's labels, found by name; None when the order is the
    same.

    ``aligned[..., i] = logits[..., order[i]]``. ``label_map`` maps the teacher's names to ours.
    Raises ``CheckpointError`` for names that are not the task's, such as ``LABEL_0``: guessing
    costs accuracy silently.
    """
    if not isinstance(task.kind, Classify | Tag):
        return None
    mapped = {str(theirs): ours for theirs, ours in (label_map or {}).items()}
    names = {int(index): str(name) for index, name in teacher_config.id2label.items()}
    position = {_plain(mapped.get(name, name)): index for index, name in names.items()}
    wanted = [_plain(label) for label in task.kind.labels]
    if sorted(position) != sorted(wanted) or len(names) != len(wanted):
        raise CheckpointError(
            f"the teacher's labels {[names[index] for index in sorted(names)]} "
            f"are not those of task {task.name!r}\n"
            f"  allowed: {list(task.kind.labels)} in any order\n"
            "  fix: give a label_map from the teacher's names to the task's, such as "
            f"{{{next(iter(names.values()))!r}: {task.kind.labels[0]!r}}}, or set its id2label"
        )
    order = tuple(position[label] for label in wanted)
    return None if order == tuple(range(len(order))) else order


def check_teacher(
    directory: str | Path,
    task: Task,
    student_tokenizer: Any = None,
    label_map: Mapping[str, str] | None = None,
) -> tuple[int, ...] | None:
    """The label order of a teacher that fits. Raises ``CheckpointError`` naming what does not fit
    the student.
    """
    from transformers import AutoConfig

    directory = Path(directory)
    if not (directory / "config.json").is_file():
        raise CheckpointError(
            f"{directory}: no config.json\n  fix: name a model directory (hf/ of a run)"
        )
    refuse_foreign(directory)
    config = AutoConfig.from_pretrained(directory)
    _check_head(directory, config, task)
    _check_tokenizer(directory, config, student_tokenizer)
    try:
        return label_order(config, task, label_map)
    except CheckpointError as error:
        raise CheckpointError(f"{directory / 'config.json'}: {error}") from None


def check_teachers(
    directories: Sequence[str | Path],
    task: Task,
    student_tokenizer: Any = None,
    label_map: Mapping[str, str] | None = None,
) -> None:
    """Raises ``CheckpointError`` unless all teachers fit the task, the student and each other."""
    for name in directories:
        directory = locate(name)
        check_teacher(directory, task, student_tokenizer, label_map)
        if student_tokenizer is None:  # they all get the same ids, so the first one decides
            student_tokenizer = teacher_tokenizer(directory)


def teacher_tokenizer(directory: str | Path) -> Any | None:
    """The tokenizer saved beside a teacher, or None when there is none."""
    from transformers import AutoTokenizer

    if not any(
        (Path(directory) / name).is_file()
        for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json")
    ):
        return None
    return AutoTokenizer.from_pretrained(directory)


def _check_head(directory: Path, config: Any, task: Task) -> None:
    head, where = HEADS.get(type(task.kind)), directory / "config.json"
    if head is None:
        raise CheckpointError(
            f"task {task.name!r}: no teacher has a head of kind {type(task.kind).__name__}"
        )
    architectures = list(getattr(config, "architectures", None) or [])
    if not any(name.endswith(head) for name in architectures):
        raise CheckpointError(
            f"{where}: architectures is {architectures}; "
            f"task {task.name!r} needs one ending in {head}\n"
            "  fix: fine-tune the model on the task first; a fresh head teaches noise"
        )
    if not isinstance(task.kind, Choose) and config.num_labels != task.kind.width:
        raise CheckpointError(
            f"{where}: the head gives {config.num_labels} numbers; "
            f"task {task.name!r} has {task.kind.width}"
        )


def _check_tokenizer(directory: Path, config: Any, student: Any | None) -> None:
    tokenizer = teacher_tokenizer(directory)
    if tokenizer is None and student is not None:
        raise CheckpointError(
            f"{directory}: no tokenizer beside the teacher to compare with the student's\n"
            "  fix: tokenizer.save_pretrained into that directory"
        )
    if tokenizer is None:
        return
    if len(tokenizer) > config.vocab_size:
        raise CheckpointError(
            f"{directory}: the tokenizer has {len(tokenizer)} ids, "
            f"the model {config.vocab_size} embeddings\n  fix: save the tokenizer of this model"
        )
    if student is None or fingerprint_tokenizer(tokenizer) == fingerprint_tokenizer(student):
        return
    theirs, ours = tokenizer.get_vocab(), student.get_vocab()
    moved = sorted(t for t in theirs.keys() & ours.keys() if theirs[t] != ours[t])
    alone = len(theirs.keys() ^ ours.keys())
    raise CheckpointError(
        f"{directory}: another tokenizer than the student's or the first teacher's\n"
        f"  seen: {len(theirs)} and {len(ours)} tokens, {alone} in one only, "
        f"{len(moved)} with another id {moved[:5]}; if none, another normalizer or mark\n"
        "  fix: take a teacher with the student's tokenizer"
    )


def _plain(label: str) -> str:
    return re.sub(r"[\s\-]+", "_", label.strip().lower())


def _keys(tree: Any) -> Iterable[str]:
    """Every key of a JSON tree: a nested configuration can carry a forbidden field too."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from _keys(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _keys(value)
