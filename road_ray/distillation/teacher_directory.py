"""A teacher's model directory: its identity, the checks that it fits, and its entry in a manifest.

What decides a teacher's answers is known by hashes; tokenizers are compared by content. A directory
that could run code on loading is refused before a loader opens any of its files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from road_ray.data.model_files import locate_model, read_config, stored_head
from road_ray.data.task_and_dataset import HEADS, Choose, Classify, MultiLabel, Task
from road_ray.data.text_rows import check_fast
from road_ray.data.tokenizer import check_vocabulary, gives_segments, read_tokenizer
from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.heads import own_head
from road_ray.models.load_weights import MERGED_FROM, LabelMap, label_order
from road_ray.models.precision import precision_of
from road_ray.system.files import read_json, sha256_of

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from road_ray.models.config import Precision

_FOREIGN_SUFFIXES = {".py", ".pkl", ".pickle", ".bin", ".ckpt", ".h5", ".msgpack"}
_NEVER_LOADED = {"training_args.bin"}  # written by the Trainer; no from_pretrained reads it
LABEL_MAP = "distillation.label_map"
IDLE_FIELDS = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures")
# The student's tokenizer, where a teacher with another one answers for its tokens.
ANSWERS_FOR = "answers_for_tokenizer_sha256"
_SEGMENTS = "+segments"
_RECORDED = ("metrics", "datasets", "seed", "init")  # entries copied from road_ray.json


@dataclass(frozen=True, kw_only=True)
class TeacherOptions:
    """Options with which teachers are loaded, the same in actors, in this process and for the check
    of their parity.

    ``student`` is the fingerprint of the student's tokenizer: teachers with another one read texts.
    None: all have the student's. ``compiled``: ``torch.compile`` makes the kernels at the first
    answer, for batches of any shape.
    """

    student: str | None = None
    label_map: LabelMap | None = None
    precision: Precision = "auto"
    compiled: bool = False


PLAIN = TeacherOptions()  # of teachers with the student's tokenizer and the task's labels


class Fit(NamedTuple):
    """Fit of a teacher to a task and a student."""

    order: tuple[int, ...] | None  # of its labels, as `label_order` has it
    tokenizer: Any | None  # its own, if its directory has one
    fingerprint: str | None  # of that; None without a student to compare it with
    reads_texts: bool  # its tokenizer makes other rows than the student's


def check_teacher(
    directory: str | Path,
    task: Task,
    options: TeacherOptions = PLAIN,
    key: str = "label_map",
) -> Fit:
    """Return the fit of a compatible teacher. Raises ``CheckpointError`` with the reason if it does
    not; ``key`` is the configuration key of the ``label_map``.

    With a ``student``, the teacher may have another tokenizer, unless it has no offsets.
    """
    directory = Path(directory)
    config = read_config(directory)  # which refuses fields that can run code
    for path in sorted(directory.iterdir()):  # pickles, too, that no loader would open
        if path.suffix in _FOREIGN_SUFFIXES and path.name not in _NEVER_LOADED:
            raise CheckpointError(
                f"{path}: a file that can run code does not belong in a model directory\n"
                "  allowed: config.json, *.safetensors and tokenizer files\n"
                "  fix: remove it; convert pickled weights to safetensors in a place you trust"
            )
    _check_head(directory, config, task)
    tokenizer, student = teacher_tokenizer(directory), options.student
    if tokenizer is not None:
        check_vocabulary(config.vocab_size, len(tokenizer), str(directory))
    elif student is not None:
        raise CheckpointError(
            f"{directory}: no tokenizer beside the teacher to compare with the student's\n"
            "  fix: tokenizer.save_pretrained into that directory"
        )
    fingerprint, reads_texts = None, False
    if student is not None:
        fingerprint = fingerprint_tokenizer(tokenizer)
        # One that gives no segments reads rows with segments too: `Teacher` leaves them out.
        reads_texts = fingerprint not in (student, student.removesuffix(_SEGMENTS))
    if reads_texts:
        try:
            check_fast(tokenizer)
        except ConfigError as error:
            raise CheckpointError(
                f"{directory}: has another tokenizer than the student, so it reads texts: {error}"
            ) from error
    order = label_order(directory, config.id2label, task, options.label_map, key)
    return Fit(order, tokenizer, fingerprint, reads_texts)


def check_equal_tokenizers(directories: Sequence[str | Path]) -> None:
    """Raise ``CheckpointError`` unless all teachers have the tokenizer of the first."""
    first = None
    for directory in directories:
        tokenizer = teacher_tokenizer(locate_model(directory))
        found = None if tokenizer is None else fingerprint_tokenizer(tokenizer)
        first = first or found
        if found not in (None, first):
            raise CheckpointError(
                f"{directory}: another tokenizer than the first teacher's\n"
                "  fix: take teachers with one tokenizer, or in Python give the student's "
                "(student_tokenizer=...) and `texts` in every batch"
            )


def _check_head(directory: Path, config: PreTrainedConfig, task: Task) -> None:
    head, where = HEADS.get(type(task.kind)), directory / "config.json"
    if head is None:
        raise CheckpointError(
            f"task {task.name!r}: no teacher has a head of kind {type(task.kind).__name__}\n"
            "  fix: train the student on its labels (`road finetune`)"
        )
    own = stored_head(directory) if head == HEADS[Classify] else None
    if own is not None:
        own_head(own)
    architectures, problem = config.architectures or [], ""
    several, width = isinstance(task.kind, MultiLabel), task.kind.width
    if own is None and not any(name.endswith(head) for name in architectures):
        problem = f"architectures is {architectures}; task {task.name!r} needs one ending in {head}"
    elif (config.problem_type == "multi_label_classification") != several:
        wanted = "any number of labels" if several else "one label a row"
        problem = f"problem_type is {config.problem_type!r}; task {task.name!r} has {wanted}"
    elif not isinstance(task.kind, Choose) and config.num_labels != width:
        problem = f"the head gives {config.num_labels} numbers; task {task.name!r} has {width}"
    if problem:
        raise CheckpointError(
            f"{where}: {problem}\n"
            "  fix: name a model that was trained on this task; a new head has random outputs"
        )


def fingerprint_tokenizer(tokenizer: Any) -> str:
    """Return the sha256 of everything that determines token ids: vocabulary, normalizer,
    pre-tokenizer, model, special tokens, and a pair of texts as it encodes them. ``+segments``
    follows if it tells the second text from the first by token types.
    """
    content: dict[str, Any] = {
        "pair": tokenizer("a", "b")["input_ids"],
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
        content["model"] = {key: part for key, part in parts["model"].items() if key != "vocab"}
    return _hash_of(content) + _SEGMENTS * gives_segments(tokenizer)


def _hash_of(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def decisive_entries(teacher: Mapping[str, object]) -> dict[str, Any]:
    """Return the entries of a teacher in a manifest that decide its answers."""
    idle = ("directory", "adapter", *_RECORDED)
    return {name: x for name, x in teacher.items() if name not in idle}


def teacher_tokenizer(directory: str | Path) -> Any | None:
    """Return the tokenizer in a teacher's directory, or None."""
    if not any(
        (Path(directory) / name).is_file()
        for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json")
    ):
        return None
    return read_tokenizer(directory)


def teacher_entry(
    directory: str | Path,
    task: Task,
    options: TeacherOptions = PLAIN,
    key: str = "label_map",
) -> dict[str, Any]:
    """Check a teacher (``check_teacher``) and return its entry in the manifest of a run, ready for
    JSON: hashes of weights, configuration and tokenizer, labels, order, precision, and metrics and
    origin from ``road_ray.json`` if present. A student's tokenizer that is another one decides the
    answers, too.
    """
    order, tokenizer, fingerprint, reads_texts = check_teacher(directory, task, options, key)
    if tokenizer is not None and fingerprint is None:
        fingerprint = fingerprint_tokenizer(tokenizer)
    adapter = Path(directory) / MERGED_FROM
    entry: dict[str, Any] = {"directory": str(directory)}
    if adapter.is_file():  # the merged model is in a cache
        entry["adapter"] = adapter.read_text()
    hashes = {path.name: sha256_of(path) for path in Path(directory).glob("*.safetensors")}
    # Equal weights in another shape, or with other label names, are another teacher.
    config = read_json(Path(directory) / "config.json")
    entry |= {
        # Of shards, that of their names and hashes.
        "weights_sha256": next(iter(hashes.values())) if len(hashes) == 1 else _hash_of(hashes),
        "config_sha256": _hash_of({n: x for n, x in config.items() if n not in IDLE_FIELDS}),
        "tokenizer_sha256": fingerprint,
    }
    if reads_texts:
        entry[ANSWERS_FOR] = options.student
    labels, path = read_config(directory).id2label, Path(directory) / "road_ray.json"
    record = read_json(path) if path.is_file() else {}
    return entry | {
        "labels": [labels[index] for index in sorted(labels)],
        "order": None if order is None else list(order),
        "precision": precision_of(task.kind, options.precision),
        **{name: record[name] for name in _RECORDED if name in record},
    }
