"""``python -m tests.chaos``: write docs/reliability.md from the table of faults. ``make chaos``
runs the long tests first and hands over what they measured (``chaos.json``).
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

from tests.chaos.faults import FAULTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
MEASURED = ROOT / "chaos.json"
# Measured without road_ray: Ray Train, Ray Tune, the Hugging Face trainer, each as it comes.
STOCK = {
    "worker killed: longest gap": "8.0 s (rank 1), 16.1 s (rank 0)",
    "worker killed: steps done again, a checkpoint every 5": "7 to 8; one reported checkpoint lost",
    "newest checkpoint truncated": "tried again until it gives up, `[Errno 22]`, no path",
    "disk full": "half a checkpoint stays; resuming dies on it",
    "loss not finite": "trained on, `train_loss: 0`, exit code 0",
    "teacher hangs": "waited for without end",
    "64 cores asked of 2": "waited for without end",
    "cluster without a token": "runs whatever is sent",
    "token file": "readable by everybody (0644)",
}


def page(measured: dict[str, str]) -> str:
    """The page, Markdown."""
    passed = [fault for fault in FAULTS if fault.passed]
    rows = [
        f"| {fault.name} | {fault.what} | {fault.expected} | "
        + ("yes" if fault.passed else f"**no**: {fault.lacks}")
        + f" | {'<br>'.join(f'`{test}`' for test in fault.tests)} |"
        for fault in FAULTS
    ]
    figures = [
        f"| {name} | {stock} | {measured.get(name, 'not measured in this run')} |"
        for name, stock in STOCK.items()
    ]
    return "\n".join(
        [
            "# What it survives",
            "",
            "Made by `python -m tests.chaos`; do not edit. Every test named here asserts that its",
            "fault really happened. Tests below `tests/`; those of `chaos/` run by `make chaos`.",
            "",
            f"Faults with tests that show the whole promise: **{len(passed)} of {len(FAULTS)}**.",
            "",
            "| | fault | what happens | shown | by |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "## Beside the stock stack",
            "",
            "Stock: ray 2.60.0, torch 2.13.0, transformers 5.23.0 as they come, 2 cores, one to",
            "three runs each. Ours: " + measured.get("machine", platform.machine()) + ".",
            "",
            "| | stock | ours |",
            "|---|---|---|",
            *figures,
            "",
        ]
    )


def main() -> None:
    """Write the page."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.is_file() else {}
    PAGE.write_text(page(measured), encoding="utf-8")
    print(f"{PAGE}: {sum(fault.passed for fault in FAULTS)} of {len(FAULTS)}")


if __name__ == "__main__":
    main()
