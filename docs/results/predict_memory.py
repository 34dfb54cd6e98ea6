"""Peak memory of `road predict` on a million rows: ``python docs/results/predict_memory.py MODEL``.

MODEL has classes; the rows are texts of 1 to 30 words. Prints a line every 100,000 rows.
"""

import argparse
import csv
import random
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from road_ray.inference.input_rows import InputRow
from road_ray.inference.load_model import load
from road_ray.inference.predict_file import Chunk, predict_chunk, predict_file

WORDS = ("a", "the", "film", "story", "was", "dull", "fine", "long", "slow", "very", "not", "with")


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_rows(path: Path, rows: int) -> None:
    rng = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        for number in range(rows):
            writer.writerow([number, " ".join(rng.choices(WORDS, k=rng.randint(1, 30)))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--rows", type=int, default=1_000_000)
    told = parser.parse_args()
    predictor = load(told.model)
    print(f"model loaded: {peak_mib():.0f} MiB")

    def reported(chunks: Iterable[list[InputRow]]) -> Iterator[Chunk]:
        began, done = time.process_time(), 0
        for chunk in (predict_chunk(predictor, rows) for rows in chunks):
            yield chunk
            before, done = done, done + len(chunk[0])
            if before // 100_000 < done // 100_000:
                seconds = time.process_time() - began
                print(f"{done:,} rows: {peak_mib():.0f} MiB, {seconds:.0f} s of CPU")

    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "rows.csv"
        write_rows(source, told.rows)
        call: dict[str, Any] = {"model": told.model}
        rows = predict_file(
            predictor, str(source), Path(place) / "out.jsonl", predict=reported, **call
        )
    print(f"{rows:,} rows: {peak_mib():.0f} MiB at most")


if __name__ == "__main__":
    main()
