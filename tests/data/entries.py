"""The examples of a file of any layout."""

from pathlib import Path

from road_ray.data.readers.layouts import read_split
from road_ray.data.task_and_dataset import Columns, Dataset

NO_COLUMNS = Columns(())


def read(path: Path, layout: str, columns: Columns = NO_COLUMNS, split: str = "train", **keys):
    """Examples of one file as a split of a data set of that layout."""
    entry = Dataset("own", "t", layout, "", columns, {split: path.name}, **keys)
    return read_split(entry, path.parent, split)
