"""Profile one CPU step of pre-training by operator: plain transformers, and road_ray.

Usage: python docs/results/step_profile.py [fp32|bf16]    (prints a Markdown table; two minutes)

ELECTRA-Small, 16 rows of 128, one thread. Of each contestant of ``python -m tests.benchmarks
pretrain`` the fourth step is profiled; times are those of an operator without the ones it calls.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the checkout, which has `tests`

from tests.benchmarks import contestants
from tests.benchmarks.contestants import Setting
from tests.benchmarks.race import Over
from tests.benchmarks.shapes import Shape

WARM_STEPS = 3
KINDS = {
    "matrix products": ("mm", "bmm", "addmm", "baddbmm", "linear", "mkldnn"),
    "attention kernel of PyTorch": ("scaled_dot_product", "flash_attention"),
    "softmax and cross-entropy": ("softmax", "nll_loss"),
    "random numbers": ("bernoulli", "random", "uniform", "rand", "multinomial", "dropout"),
    "activation": ("gelu", "tanh", "erf"),
    "LayerNorm": ("layer_norm",),
    "copies and casts": ("copy", "clone", "cat", "_to_copy"),
    "logarithms of the Gumbel noise": ("log",),
    "optimizer": ("adamw", "adam", "foreach", "Optimizer"),
    "element-wise products and sums": ("mul", "add", "div", "sub", "neg", "sum"),
}


class Referee:
    """Connection that lets a contestant make four steps and profiles the last one."""

    def __init__(self) -> None:
        self.left = WARM_STEPS + 1
        self.profile = profile(activities=[ProfilerActivity.CPU])

    def recv_bytes(self) -> bytes:
        """Name a clock, or say that it is over."""
        self.left -= 1
        if self.left == 0:
            self.profile.start()
        return b"wall" if self.left >= 0 else b"end"

    def send_bytes(self, _: bytes) -> None:
        """Stop the profile when the last step is done."""
        if self.left == 0:
            self.profile.stop()
            self.left = -1


def milliseconds(main: Callable[..., None], precision: str) -> dict[str, float]:
    """Return the milliseconds of one step by kind of operator."""
    referee = Referee()
    with suppress(Over):
        main(Setting(Shape(), precision=precision), referee)
    found = dict.fromkeys([*KINDS, "other"], 0.0)
    for event in referee.profile.key_averages():
        found[kind_of(event.key)] += event.self_cpu_time_total / 1e3
    return found


def kind_of(operator: str) -> str:
    """Return the first kind that has a part of the operator's name."""
    name = operator.removeprefix("aten::")
    for kind, parts in KINDS.items():
        whole = name.strip("_").removesuffix("_backward")
        if whole in parts or any(part in name for part in parts if len(part) > 3):
            return kind
    return "other"


def main(precision: str) -> None:
    torch.set_num_threads(1)
    before = milliseconds(contestants.plain, precision)
    after = milliseconds(contestants.ours, precision)
    print(f"| operators, {precision} | plain transformers, ms | | road_ray, ms | |")
    print("|---|---|---|---|---|")
    for kind in before:
        print(f"| {kind} | {_cells(before, kind)} | {_cells(after, kind)} |")
    print(f"| all | {sum(before.values()):,.0f} | | {sum(after.values()):,.0f} | |")


def _cells(found: Mapping[str, float], kind: str) -> str:
    return f"{found[kind]:,.0f} | {found[kind] / sum(found.values()):.0%}"


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "fp32")
