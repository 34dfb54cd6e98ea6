"""Find what makes a new span head answer more at threshold 0: its loss or its first weights.

Usage: python docs/results/minilm_threshold.py MODEL DATA RUNS     (prints Markdown)

The fine-tuning on SQuAD 2.0 of minilm.py, by road_ray, with the loss over all tokens, as the
Trainer has it, or with the first weights of ELECTRA's heads. Finished runs are skipped.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import minilm
import torch
from torch import Tensor, nn

from road_ray.data.batching import Batch
from road_ray.models.encoder import initialize, initialize_output

SEEDS = (0,)
WAYS = ("all_tokens", "electra_weights")
FIGURES = ("best_f1", "best_exact", "HasAns_f1", "NoAns_f1")


@contextmanager
def with_choice(way: str) -> Iterator[None]:
    def every_token(batch: Batch) -> Tensor:
        return torch.ones_like(batch["input_ids"], dtype=torch.bool)

    def electra_weights(part: nn.Module, std: float) -> None:
        initialize(part, std)
        if isinstance(part, nn.Linear):
            initialize_output(part)

    choices = {
        "all_tokens": ("road_ray.objectives.supervised.allowed_positions", every_token),
        "electra_weights": ("road_ray.models.heads.initialize", electra_weights),
    }
    with patch(*choices[way]):
        yield


def main(model: str, data: str, runs: Path) -> None:
    print("| | " + " | ".join(FIGURES) + " |\n|" + "---|" * (len(FIGURES) + 1))
    for way in WAYS:
        for seed in SEEDS:
            place = runs / f"squad_v2-{way}-{seed}"
            if not (place / "result.json").is_file():
                with with_choice(way):
                    minilm.ours(model, data, place, "squad_v2", seed)
                result = minilm.figures_of(place / "hf", data, "squad_v2")
                (place / "result.json").write_text(json.dumps(result))
            result = json.loads((place / "result.json").read_text())
            shown = " | ".join(f"{result[f'eval/squad_v2/{figure}']:.1f}" for figure in FIGURES)
            print(f"| {way}, seed {seed} | {shown} |", flush=True)


if __name__ == "__main__":
    model, data, runs = sys.argv[1:]
    main(model, data, Path(runs))
