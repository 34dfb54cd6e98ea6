"""Out-of-fold teachers in a distillation: each answers only for rows that it has not seen."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.data.config import SourceConfig
from road_ray.data.folds import row_folds
from road_ray.data.load_split import Split, row_features
from road_ray.data.model_files.locate_model import MODEL_RECORD, locate_model
from road_ray.data.tokenizer import pad_id_of
from road_ray.distillation.ensemble.cross_tokenizer.row_texts import RowTexts, WithTexts
from road_ray.distillation.ensemble.out_of_fold_ensemble import OutOfFoldEnsemble
from road_ray.distillation.ensemble.protocol import Ensemble
from road_ray.recipes.distillation.teacher_source import TeacherSource
from road_ray.system.json_file import read_json
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from road_ray.distributed.teachers.client import ActorEnsemble

_MOST_ANCESTORS = 20
_log = logging.getLogger(__name__)


@contextmanager
def open_ensemble(
    teacher_source: TeacherSource,
    count: int,
    split: Split,
    actors: ActorEnsemble | None,
    *,
    tokenizer: PreTrainedTokenizerFast,
    source: SourceConfig,
    **options: Any,
) -> Iterator[Ensemble]:
    """Yield the ensemble for the rows of ``split``. Teachers of ``count`` folds answer only for
    rows that they have not seen. ``options`` are those of ``TeacherSource.ensemble``.
    """
    texts = options["texts"] = texts_of(teacher_source, split, tokenizer, source)
    with ExitStack() as stack:
        if count == 1:
            opened = teacher_source.ensemble(split.features, actors=actors, **options)
            yield _with_texts(stack.enter_context(opened), texts)
            return
        folds, members = row_folds(split, count), []
        for fold in range(count):
            fold_source, fold_actors = teacher_source.of_fold(fold, count), None
            if actors is not None:
                each = len(fold_source.directories)
                fold_actors = actors.part(range(fold * each, (fold + 1) * each))
            opened = fold_source.ensemble(
                split.features, actors=fold_actors, rows=folds == fold, **options
            )
            members.append(stack.enter_context(opened))
        yield _with_texts(OutOfFoldEnsemble(members, folds), texts)


def _with_texts(ensemble: Ensemble, texts: RowTexts | None) -> Ensemble:
    return ensemble if texts is None else WithTexts(ensemble, texts)


def warn_of_seen_rows(directories: Sequence[str], dataset: str) -> None:
    """Warn if an out-of-fold teacher started from a model that was trained on the data set, because
    it has then seen the rows of every fold. The records of models name their ``init``.
    """
    for number, directory in enumerate(directories):
        place, passed = _init_of(Path(directory)), 0
        while place is not None and passed < _MOST_ANCESTORS:
            if dataset in (_record_of(place).get("datasets") or ()):
                _log.warning(
                    "teacher %d of a fold started from %s, which was trained on %s: it has seen "
                    "the rows of every fold\n"
                    "  fix: train the teachers of folds from a model that was not",
                    number, place, dataset,
                )  # fmt: skip
                return
            place, passed = _init_of(place), passed + 1


def _record_of(directory: Path) -> dict[str, Any]:
    path = directory / MODEL_RECORD
    return read_json(path) if path.is_file() else {}


def _init_of(directory: Path) -> Path | None:
    """Return the local model directory that a model was trained from, if its record names one."""
    init = _record_of(directory).get("init")
    if not isinstance(init, str) or not init or not Path(init).expanduser().is_dir():
        return None
    return Path(locate_model(Path(init).expanduser()))


def texts_of(
    teacher_source: TeacherSource,
    split: Split,
    tokenizer: PreTrainedTokenizerFast,
    source: SourceConfig,
) -> RowTexts | None:
    """Return the texts of the rows, if a teacher needs them."""
    if not teacher_source.mixed:
        return None
    return RowTexts(split, row_features(split, tokenizer, source))


def label_rows(
    teacher_source: TeacherSource,
    count: int,
    split: Split,
    *,
    tokenizer: PreTrainedTokenizerFast,
    source: SourceConfig,
    actors: ActorEnsemble | None = None,
) -> None:
    """Have the teachers answer the rows of ``split`` that have no answer in their tables: all
    teachers every row, teachers of ``count`` folds those that they have not seen. ``actors`` are
    the caller's, if it has started them.
    """
    folds, texts = row_folds(split, count), texts_of(teacher_source, split, tokenizer, source)
    for fold in range(count):
        fold_source, fold_actors = teacher_source.of_fold(fold, count), actors
        if actors is not None:
            each = len(fold_source.directories)
            fold_actors = actors.part(range(fold * each, (fold + 1) * each))
        fold_source.label(
            split.features,
            pad_id=pad_id_of(tokenizer),
            device=Worker.alone().device,
            actors=fold_actors,
            rows=folds == fold,
            texts=texts,
        )
