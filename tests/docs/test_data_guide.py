"""The YAML blocks of the guide of own data are configurations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from road_ray.data.load_split import find_dataset
from road_ray.verbs import configure, verb_of_file

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "data.md"
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_is_a_configuration_of_data_sets_that_fit(block, tmp_path):
    file = tmp_path / "block.yaml"
    file.write_text(block)
    config = configure(verb_of_file(file), path=file)
    settings = getattr(config.data, "datasets", None) or (config.data.dataset,)
    assert set(settings) <= set(config.data.sets)
    for name in config.data.sets:
        find_dataset(name, config.data)


def test_the_page_has_all_of_its_blocks():
    assert len(BLOCKS) == 5
