"""Checks that a teacher fits the task and the student: files, head, labels and tokenizer.

A directory that could run code on loading is refused before a loader opens any of its files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.data.features.text_rows import check_fast
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.model_files.remote_code import check_tokenizer_files, read_config
from road_ray.data.task_and_dataset import Choose, Classify, Regress, Span, Tag, Task
from road_ray.distillation.teacher_identity import fingerprint_tokenizer, teacher_tokenizer
from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.heads.label_order import LabelMap, label_order

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_FOREIGN_SUFFIXES = {".py", ".pkl", ".pickle", ".bin", ".ckpt", ".h5", ".msgpack"}
_NEVER_LOADED = {"training_args.bin"}  # written by the Trainer; no from_pretrained reads it
LABEL_MAP = "distillation.label_map"
HEADS: dict[type, str] = {  # suffixes of the names of Hugging Face's classes
    Span: "ForQuestionAnswering",
    Classify: "ForSequenceClassification",
    Regress: "ForSequenceClassification",
    Tag: "ForTokenClassification",
    Choose: "ForMultipleChoice",
}


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


def refuse_random(directory: Path, missing: Sequence[str]) -> None:
    """Raise ``CheckpointError`` if weights of a teacher are not in its files."""
    if missing:
        raise CheckpointError(
            f"{directory}: {len(missing)} weights are not in the file "
            f"and would be random: {list(missing[:3])}\n"
            "  fix: save the fine-tuned model whole with save_pretrained"
        )


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
        check_fast(tokenizer)
    except ConfigError as error:
        raise CheckpointError(
            f"{directory}: has another tokenizer than the student, so it reads texts: {error}"
        ) from error
