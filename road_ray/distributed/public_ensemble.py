"""Public ensemble for scripts and notebooks: model names in, logits out, in actors or in process.

It wraps either ensemble behind one constructor and implements the same protocol, so ``annotate``
and every recipe accept it. Ray is imported only for teachers in actors.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, get_args

from torch import Tensor

from road_ray.data import catalog
from road_ray.data.model_files import head_or_only, locate_model
from road_ray.data.task_and_dataset import Regress, Task
from road_ray.distillation import ensemble as protocol
from road_ray.distillation import weighting as rules
from road_ray.distillation.annotate import annotate
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.distillation.stored_ensemble import StoredEnsemble
from road_ray.distillation.teacher import inputs_of
from road_ray.distillation.teacher_directory import (
    TeacherOptions,
    check_equal_tokenizers,
    check_teacher,
    fingerprint_tokenizer,
    teacher_entry,
)
from road_ray.distributed.connection import connected
from road_ray.errors import ConfigError
from road_ray.inference.load_model import task_of
from road_ray.models.config import Precision
from road_ray.models.encoder import model_directory
from road_ray.models.load_weights import LabelMap


class Ensemble(protocol.Ensemble):
    """M teachers of one task, checked against each other, in Ray actors or in this process. Close
    it after use.

    ``directories`` are model directories, run directories or Hub names; ``task`` is a task or data
    set of the catalogue, or another ``Task`` such as ``Task("topic", Classify(labels))``. None:
    that of the first teacher, whose labels the others must have too.
    With a ``store``, a directory that several processes may share, ``label`` has the teachers
    answer all rows once, and every batch reads these answers. Further options
    (``num_cpus``, ``num_gpus``, ``timeout_seconds``, ...) are those of ``start_teachers``.
    With ``student_tokenizer``, teachers may have any tokenizer: those with another one read the
    ``texts`` of a batch, ``[B]`` strings or tuples of strings.
    Without a connected cluster, ``RAY_ADDRESS`` is used, or a private cluster that is started and
    stopped with the ensemble.

    >>> import torch
    >>> import road_ray as rr
    >>> batch = {"input_ids": torch.tensor([[2, 7, 3]]), "labels": torch.tensor([1])}
    >>> with rr.Ensemble(["runs/finetune", "runs/student"], host="process") as ensemble:
    ...     logits = ensemble.logits(batch)
    ...     soft = ensemble.soft_targets(batch, weighting="correctness", wrong=0.75)
    >>> logits.shape, soft.shape  # teachers, rows, classes
    (torch.Size([2, 1, 2]), torch.Size([1, 2]))
    """

    def __init__(
        self,
        directories: Sequence[str | Path],
        *,
        task: str | Task | None = None,
        store: str | Path | None = None,
        host: Literal["actors", "process"] = "actors",
        student_tokenizer: Any = None,
        label_map: LabelMap | None = None,
        precision: Precision = "auto",
        compiled: bool = False,
        **options: Any,
    ) -> None:
        for key, given, allowed in (
            ("host", host, ("actors", "process")),
            ("precision", precision, get_args(Precision)),
        ):
            if given not in allowed:
                names = ", ".join(map(repr, allowed))
                raise ConfigError(f"distillation.{key} is {given!r}\n  allowed: {names}")
        if isinstance(directories, str | Path) or not directories:
            raise ConfigError(
                f"distillation.teachers is {directories!r}\n  allowed: a list of directories"
            )
        directories = [model_directory(str(name), "distillation.teachers") for name in directories]
        if task is None:
            task = task_of(directories[0])
        self.task = task if isinstance(task, Task) else catalog.task(task)
        self.is_number = isinstance(self.task.kind, Regress)
        dataset = task if isinstance(task, str) else self.task.name
        places = [head_or_only(locate_model(name), self.task, dataset) for name in directories]
        heads = [place if place.parent.name == "heads" else None for place in places]
        directories = [head or name for head, name in zip(heads, directories, strict=True)]
        shared: dict[str, Any] = {"label_map": label_map, "precision": precision}
        student = None if student_tokenizer is None else fingerprint_tokenizer(student_tokenizer)
        self._teacher = TeacherOptions(student=student, compiled=compiled, **shared)
        for place in places:
            check_teacher(place, self.task, self._teacher)
        if student is None:  # all get the same ids
            check_equal_tokenizers(places)
        self._cluster = ExitStack()
        self.directories, self.store, self.host = list(directories), store, host
        self._options = options
        # Keys of `distillation` of a run that these teachers teach, where they are no defaults.
        keys = shared | {"host": host, "store": store and str(store), "torch_compile": compiled}
        self.settings = {name: x for name, x in keys.items() if x not in (None, False, "auto")}
        if store is None:
            self.inner = self._start(directories)
        else:
            entries = [teacher_entry(place, self.task, self._teacher) for place in places]
            self.inner = StoredEnsemble(store, entries, self.task)
        self.size = self.inner.size

    def submit(self, batch: Mapping[str, Any]) -> Any:
        return self.inner.submit(batch)

    def gather(self, handle: Any) -> Tensor:
        logits = self.inner.gather(handle)
        self.stats = self.inner.stats
        return logits

    def label(self, batches: Iterable[Mapping[str, Any]]) -> int:
        """Have the teachers answer all rows of ``batches`` that have no answer in the tables of
        ``store``, and return how many these were. The teachers run only until then.
        """
        if not isinstance(self.inner, StoredEnsemble):
            raise ConfigError("label: the ensemble has no store\n  fix: Ensemble(..., store=PATH)")
        given = [inputs_of(batch) for batch in batches]
        return self.inner.label(
            lambda: given, lambda members: self._start([self.directories[n] for n in members])
        )

    def logits(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the logits of each teacher in order. ``-> [M, B, ..., C]``, fp32."""
        return self.gather(self.submit(batch))

    def soft_targets(
        self, batch: Mapping[str, object], weighting: str | None = None, **rule: object
    ) -> Tensor:
        """Return the weighted teacher logits as ``annotate`` adds them. ``-> [B, ..., C]``, of
        several labels ``[B, C, 2]``, fp32. ``weighting`` is ``correctness`` by default, ``mean``
        for one teacher; ``rule`` are its options, such as ``wrong``.
        """
        (softened,) = self.annotate([batch], 0, weighting, average_loss=False, **rule)
        soft: Tensor = softened["soft_logits"]
        return soft

    def annotate(
        self,
        batches: Iterable[Mapping[str, Any]],
        lookahead: int = 2,
        weighting: str | None = None,
        average_loss: bool = False,
        **rule: object,
    ) -> Iterator[Mapping[str, Any]]:
        """Yield each batch with ``soft_logits``, ``kd_keep`` and ``stats``, for ``average_loss``
        also each teacher's logits and weights; see ``distillation.annotate``.
        """
        weigh = rules.resolve(weighting or rules.default_rule(self.size), **rule)
        return annotate(batches, self, weigh, lookahead, each=average_loss)

    def close(self) -> None:
        """Stop the actors, and the cluster if it was started for them."""
        self.inner.close()
        self._cluster.close()

    def _start(self, directories: Sequence[str | Path]) -> protocol.Ensemble:
        """Load teachers in this process or in actors, and return their ensemble."""
        if self.host == "process":
            return LocalEnsemble(directories, self.task, self._teacher, **self._options)
        with ExitStack() as stack:
            stack.enter_context(connected())
            from road_ray.distributed.teachers import start_teachers

            started = start_teachers(directories, self.task, teacher=self._teacher, **self._options)
            self._cluster.enter_context(stack.pop_all())
        return started
