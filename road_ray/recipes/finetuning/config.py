"""Configuration of `road finetune` and `road teachers`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from road_ray.data.config import SourceConfig
from road_ray.data.features.types import Example
from road_ray.data.folds import fold_of
from road_ray.recipes.config import RunConfig
from road_ray.recipes.inputs import Inputs, model_files, split_files
from road_ray.training.config import OptimizerConfig, TrainingConfig


class FinetuneDataConfig(SourceConfig):
    """The data set to learn, those to be judged on, and how it is served."""

    dataset: str = "sst2"
    evaluate_on: tuple[str, ...] | None = None
    """Judged at the end, in this order; None: the data set itself. Span sets reuse the first one's
    threshold.
    """
    batch_size: int = Field(32, ge=1)
    """Global, in examples."""
    max_batch_tokens: int | None = Field(None, ge=8)
    """Of a batch with its padding: rows of like length, as many as fit, at most batch_size. None:
    every batch has batch_size rows.
    """
    epochs: float = Field(3.0, gt=0)
    """Unused when training.steps is given."""
    num_folds: int = Field(1, ge=1)
    """Train without one of so many folds of the data; `teachers` sets both (see num_folds there).
    """
    held_out_fold: int | None = Field(None, ge=0)

    def learns_from(self, example: Example) -> bool:
        """Whether an example is trained on: all of them, but for those of the fold held out."""
        held_out = self.held_out_fold
        return held_out is None or fold_of(example, self.num_folds) != held_out


class FinetuneConfig(RunConfig):
    """Source of the defaults: Clark et al. 2020, table 7 (ELECTRA-Small)."""

    run_dir: Path = Path("runs/finetune")
    init: str = ""
    """A run directory, an hf/ directory or a hub name."""
    from_scratch: bool = False
    """Shape and tokenizer of ``init`` with new weights: what pre-training is worth."""
    keep_head: bool = True
    """A model that was trained on the same task (by `multitask`, say) brings its head along."""
    data: FinetuneDataConfig = FinetuneDataConfig()
    optimizer: OptimizerConfig = OptimizerConfig(peak_lr=3e-4, layer_decay=0.8, weight_decay=0.0)
    training: TrainingConfig = TrainingConfig()

    def inputs(self) -> Inputs:
        train = split_files(self.data, [self.data.dataset], "train")
        return {
            "init": model_files(self.init),
            "data": [*train, *split_files(self.data, judged_names(self), "dev")],
        }


def judged_names(config: FinetuneConfig) -> list[str]:
    """Return the data sets whose dev splits a fine-tuning reads, each once."""
    names = list(config.data.evaluate_on or (config.data.dataset,))
    if config.training.evaluate_every_steps is not None:
        names.append(config.data.dataset)
    return list(dict.fromkeys(names))


class FinetuningsConfig(FinetuneConfig):
    """Fine-tuning with seeds ``seed``, ``seed + 1``, ..., of one data set or of each of a pool."""

    num_seeds: int = Field(1, ge=1)
    """ELECTRA's tables are medians of ten."""
    pool: dict[str, dict[str, int | float | str | tuple[str, ...]]] = Field({})
    """Data sets, each with the keys in which it differs from the rest of this configuration: {rte:
    {data.epochs: 10}}. Empty: data.dataset alone.
    """
    start_from: dict[str, str] = Field({})
    """Which of the pool goes on from the run of another, of the same seed: {rte: mnli}."""
    only_at_hand: bool = False
    """Leave out, with a warning, what the data root does not have; else it is an error."""
    max_concurrent: int = Field(0, ge=0)
    """Ray tasks of one core and `gpus_per_worker` each; 0: one after the other in this process."""
    timeout_seconds: float = Field(7 * 86400.0, gt=0)
    """For all of them."""

    def inputs(self) -> Inputs:
        return {}  # each fine-tuning records its own


class TeachersConfig(FinetuneConfig):
    """Fine-tuning, repeated with seeds ``seed``, ``seed + 1``, ..."""

    run_dir: Path = Path("runs/teachers")
    num_teachers: int = Field(3, ge=1)
    """ROaD distils from three."""
    num_folds: int = Field(1, ge=1)
    """2 or more: so many teachers for each fold of the data, trained without it. A student then
    learns each row from those that have not seen it.
    """
    max_concurrent: int = Field(0, ge=0)
    """Ray tasks of one core and `gpus_per_worker` each; 0: one after the other in this process."""
    timeout_seconds: float = Field(7 * 86400.0, gt=0)
    """For all of them."""
    judge_ensemble: bool = True
    """The mean of their logits on the judged sets: what one student would have to reach."""
