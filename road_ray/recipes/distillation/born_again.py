"""Born-again students: each generation learns from the one before it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from road_ray.config import override
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.model_files.remote_code import read_config
from road_ray.distillation.hidden_state_matching import layer_map
from road_ray.distributed.connection import connected
from road_ray.models.encoder import model_directory
from road_ray.models.encoder_layers import num_layers
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.distillation.teacher_list import teacher_entry
from road_ray.recipes.finetuning.train_teachers import ensemble_figures
from road_ray.recipes.preflight_checks import require_init
from road_ray.recipes.run_directory.model_record import atomic_directory
from road_ray.recipes.run_directory.recorded_config import mirrored_below
from road_ray.recipes.run_directory.run import Run, open_run_directory
from road_ray.system.json_file import write_json_atomic
from road_ray.training.run_context import RunContext

_log = logging.getLogger(__name__)
Distill = Callable[..., Run]


def born_again(
    config: DistillConfig,
    distill: Distill,
    ensemble: object = None,
    context: RunContext | None = None,
) -> Run:
    """Train ``distillation.generations`` students below the run directory. The first learns from
    the configured teachers, each other one from its predecessor; finished students are reused.

    ``hf/`` is the last student. ``teachers.json`` lists all of them, so that a further student can
    learn from the ensemble, whose own figures are ``eval/<data set>/ensemble_<metric>``. Source:
    Furlanello et al. 2018 (BAN, and BANE for the ensemble).
    """
    _check_matched_layers(config)
    if context is not None and context.plan_only:
        return distill(generation(config, 0, None), ensemble, context)  # all cost the same
    count = config.distillation.generations
    actors = config.distillation.host == "actors"
    with open_run_directory(config) as directory:
        runs: list[Run] = []
        with connected(config.address) if actors else nullcontext():
            for number in range(count):
                _log.info("generation %d of %d", number + 1, count)
                single = generation(config, number, runs[-1] if runs else None)
                runs.append(distill(single, None if runs else ensemble, context))
        entries = [teacher_entry(directory, run, config.seed + n) for n, run in enumerate(runs)]
        write_json_atomic(directory / "teachers.json", {"teachers": entries})
        with atomic_directory(directory / "hf") as staged:
            shutil.copytree(runs[-1].hf_dir, staged, dirs_exist_ok=True)
        figures = dict(runs[-1].metrics)
        for number, run in enumerate(runs, 1):
            scores = {
                name: value for name, value in run.metrics.items() if name.startswith("eval/")
            }
            figures |= {f"generation-{number}/{name}": value for name, value in scores.items()}
        figures |= ensemble_figures(directory, runs, config.data)
        write_json_atomic(directory / "metrics.json", figures)
    return Run(directory, figures)


def _check_matched_layers(config: DistillConfig) -> None:
    """Raise ``ConfigError`` for matched layers that a student, the teacher of the next generation,
    does not have: else the first error would come after the first generation.
    """
    if config.distillation.matching.enabled:
        place = locate_model(model_directory(require_init(config.init)), weights=False)
        student = read_config(place)
        layers = int(student.num_hidden_layers)
        if config.student.layers is not None:
            layers = len(config.student.chosen(num_layers(student)))
        layer_map(layers, layers, config.distillation.matching.layers)


def generation(config: DistillConfig, number: int, before: Run | None) -> DistillConfig:
    """Return the configuration of one student of the chain, ``number`` counted from 0; its seed
    differs from the others'.
    """
    place = Path(f"generation-{number + 1}")
    changes: dict[str, Any] = {
        "run_dir": config.run_dir / place,
        "training.mirror": mirrored_below(config.training, place).mirror,
        "seed": config.seed + number,
        "distillation.generations": 1,
    }
    if before is not None:
        changes |= {
            "distillation.teachers": [str(before.hf_dir)],
            "distillation.num_teachers": 1,
            "distillation.matching.teacher": 0,
        }
    return override(config, changes)
