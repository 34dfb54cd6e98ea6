"""Train a classifier on a CSV file of one's own and use it, from Python.

python examples/own_csv.py
"""

import road_ray as rr


def main(**overrides: object) -> list[str]:
    """Return the labels of two new reviews."""
    run = rr.finetune(
        "examples/own_csv.yaml",
        overrides={
            "init": "google/electra-small-discriminator",
            "run_dir": "runs/mine",
            **overrides,
        },
    )
    print(f"accuracy: {run.metrics['eval/reviews/accuracy']:.1f}")
    model = rr.load(run.directory)
    new = [("The kettle leaks.", "Never again!"), ("A lovely lamp.", "Thank you!")]
    rows = model([{"text": title, "text_pair": text} for title, text in new])
    return [row["label"] for row in rows]


if __name__ == "__main__":
    print(main())
