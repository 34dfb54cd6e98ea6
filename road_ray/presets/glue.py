"""Fine-tuning on GLUE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from road_ray.presets.preset import preset
from road_ray.recipes.finetuning.config import FinetuneDataConfig, FinetuningsConfig


@preset("finetune")
def glue() -> FinetuningsConfig:
    """Fine-tuning on every available GLUE task with the settings of ELECTRA-Small; one table with
    the average. Source: Clark et al. 2020, table 7; give num_seeds=10 for the medians of the paper.
    """
    long: dict[str, Any] = {"data.epochs": 10.0}
    both = ["mnli", "mnli_mismatched"]
    names = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
    changes: dict[str, Any] = {"rte": long, "stsb": long, "mnli": {"data.evaluate_on": both}}
    return FinetuningsConfig(
        run_dir=Path("runs/glue"),
        data=FinetuneDataConfig(max_length_tokens=128),
        pool={name: changes.get(name, {}) for name in names},
        only_at_hand=True,
    )


@preset("finetune")
def glue_from_mnli() -> FinetuningsConfig:
    """The preset glue, but RTE, STS-B and MRPC start from the model of MNLI. Source: Clark et al.
    2020, section 3.4.
    """
    start_from = dict.fromkeys(("rte", "stsb", "mrpc"), "mnli")
    changes = {"start_from": start_from, "run_dir": Path("runs/glue-from-mnli")}
    return glue().model_copy(update=changes)


@preset("finetune")
def sst2_small() -> FinetuningsConfig:
    """SST-2 as for ELECTRA-Small. Source: Clark et al. 2020, table 7."""
    return FinetuningsConfig(
        data=FinetuneDataConfig(dataset="sst2", max_length_tokens=128, epochs=3)
    )
