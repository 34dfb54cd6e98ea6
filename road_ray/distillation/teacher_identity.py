"""Identity of a teacher, and its compatibility with the task and the student.

Tokenizers are compared by content, labels by name, weights by hash. A directory that could run code
on loading is refused before a loader opens any of its files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.data.features.special_tokens import special_tokens
from road_ray.data.model_directory import check_tokenizer_files, locate_model, read_config
from road_ray.data.task_and_dataset import Choose, Classify, Regress, Span, Tag, Task
from road_ray.data.tokenizer import read_tokenizer
from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.heads.label_order import LabelMap, label_order
from road_ray.system.file_hashes import sha256_of
from road_ray.system.json_file import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_FOREIGN_SUFFIXES = {".py", ".pkl", ".pickle", ".bin", ".ckpt", ".h5", ".msgpack"}
_NEVER_LOADED = {"training_args.bin"}  # written by the Trainer; no from_pretrained reads it
_IDLE_FIELDS = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures")
LABEL_MAP = "distillation.label_map"
# Entries of a teacher's manifest that decide its answers.
DECISIVE = ("weights_sha256", "config_sha256", "tokenizer_sha256", "labels", "order", "precision")
# The student's tokenizer, where a teacher with another one answers for its tokens.
ANSWERS_FOR = "answers_for_tokenizer_sha256"
HEADS: dict[type, str] = {  # suffixes of the names of Hugging Face's classes
    Span: "ForQuestionAnswering",
    Classify: "ForSequenceClassification",
    Regress: "ForSequenceClassification",
    Tag: "ForTokenClassification",
    Choose: "ForMultipleChoice",
}


def refuse_foreign(directory: str | Path) -> None:
    """Raise ``CheckpointError`` for a file or field that could run code when the model is loaded;
    pickles are refused even if no loader would open them.
    """
    directory = Path(directory)
    for path in sorted(directory.iterdir()):
        if path.suffix in _FOREIGN_SUFFIXES and path.name not in _NEVER_LOADED:
            raise CheckpointError(
                f"{path}: a file that can run code does not belong in a model directory\n"
                "  allowed: config.json, *.safetensors and tokenizer files\n"
                "  fix: remove it; convert pickled weights to safetensors in a place you trust"
            )
    read_config(directory)
    check_tokenizer_files(directory)


def fingerprint_tokenizer(tokenizer: Any) -> str:
    """Return the sha256 of everything that determines token ids: vocabulary, normalizer,
    pre-tokenizer, model and special tokens.
    """
    content: dict[str, Any] = {
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


def decisive_entries(teacher: Mapping[str, object]) -> dict[str, Any]:
    """Return the entries of a teacher in a manifest that decide its answers."""
    entries = {name: teacher.get(name) for name in DECISIVE}
    return entries | ({ANSWERS_FOR: teacher[ANSWERS_FOR]} if teacher.get(ANSWERS_FOR) else {})


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


def check_teacher(
    directory: str | Path,
    task: Task,
    student_tokenizer: Any = None,
    label_map: LabelMap | None = None,
    key: str = "label_map",
) -> tuple[int, ...] | None:
    """Return the label order of a compatible teacher. Raises ``CheckpointError`` with the reason if
    it is not; ``key`` is the configuration key of the ``label_map``.

    With ``student_tokenizer``, the teacher may have another one, unless it has no offsets.
    """
    directory = Path(directory)
    if not (directory / "config.json").is_file():
        raise CheckpointError(
            f"{directory}: no config.json\n  fix: name a model directory (hf/ of a run)"
        )
    refuse_foreign(directory)
    config = read_config(directory)
    _check_head(directory, config, task)
    _check_tokenizer(directory, config, student_tokenizer)
    return label_order(directory, config.id2label, task, label_map, key)


def refuse_random(directory: Path, missing: Sequence[str]) -> None:
    """Raise ``CheckpointError`` if weights of a teacher are not in its files."""
    if missing:
        raise CheckpointError(
            f"{directory}: {len(missing)} weights are not in the file "
            f"and would be random: {list(missing[:3])}\n"
            "  fix: save the fine-tuned model whole with save_pretrained"
        )


def check_teachers(
    directories: Sequence[str | Path],
    task: Task,
    student_tokenizer: Any = None,
    label_map: LabelMap | None = None,
) -> None:
    """Raise ``CheckpointError`` unless all teachers fit the task, and the student's tokenizer or,
    without one, each other's.
    """
    for name in directories:
        check_teacher(locate_model(name), task, student_tokenizer, label_map)
    if student_tokenizer is None:  # all get the same ids
        check_equal_tokenizers(directories)


def teacher_tokenizer(directory: str | Path) -> Any | None:
    """Return the tokenizer in a teacher's directory, or None."""
    if not any(
        (Path(directory) / name).is_file()
        for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json")
    ):
        return None
    return read_tokenizer(directory)


def reads_other_tokens(directory: str | Path, student: str) -> bool:
    """Return True if a teacher has another tokenizer than that of the fingerprint ``student``."""
    tokenizer = teacher_tokenizer(directory)
    return tokenizer is not None and fingerprint_tokenizer(tokenizer) != student


def _check_head(directory: Path, config: PreTrainedConfig, task: Task) -> None:
    head, where = HEADS.get(type(task.kind)), directory / "config.json"
    if head is None:
        raise CheckpointError(
            f"task {task.name!r}: no teacher has a head of kind {type(task.kind).__name__}\n"
            "  fix: train the student on its labels (`road finetune`)"
        )
    architectures = list(getattr(config, "architectures", None) or [])
    if not any(name.endswith(head) for name in architectures):
        raise CheckpointError(
            f"{where}: architectures is {architectures}; "
            f"task {task.name!r} needs one ending in {head}\n"
            "  fix: fine-tune the model on the task first; a new head has random outputs"
        )
    if not isinstance(task.kind, Choose) and config.num_labels != task.kind.width:
        raise CheckpointError(
            f"{where}: the head gives {config.num_labels} numbers; "
            f"task {task.name!r} has {task.kind.width}\n"
            f"  allowed: {task.kind.width}\n  fix: name a model that was trained on this task"
        )


def _check_tokenizer(directory: Path, config: PreTrainedConfig, student: object) -> None:
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
    try:
        special_tokens(tokenizer, 1)
    except ConfigError as error:
        raise CheckpointError(
            f"{directory}: has another tokenizer than the student, so it reads texts: {error}"
        ) from error


def check_equal_tokenizers(directories: Sequence[str | Path]) -> None:
    """Raise ``CheckpointError`` unless all teachers have the tokenizer of the first."""
    tokenizers = [teacher_tokenizer(locate_model(name)) for name in directories]
    first = tokenizers[0]
    for directory, tokenizer in zip(directories, tokenizers, strict=True):
        if first is None or tokenizer is None:
            continue
        if fingerprint_tokenizer(tokenizer) != fingerprint_tokenizer(first):
            vocab, expected = tokenizer.get_vocab(), first.get_vocab()
            moved = sorted(t for t in vocab.keys() & expected.keys() if vocab[t] != expected[t])
            alone = len(vocab.keys() ^ expected.keys())
            raise CheckpointError(
                f"{directory}: another tokenizer than the first teacher's\n"
                f"  seen: {len(vocab)} and {len(expected)} tokens, {alone} in one only, "
                f"{len(moved)} with another id {moved[:5]}; if none, another normalizer or mark\n"
                "  fix: give the student's tokenizer (student_tokenizer=...) and `texts` in every "
                "batch, or take teachers with one tokenizer"
            )
