"""The commands of the guide of own data run as printed; its YAML blocks are configurations."""

from __future__ import annotations

import json

import pytest

from road_ray.data.load_split import find_dataset
from road_ray.verbs import configure, verb_of_file
from tests.docs.blocks import blocks, commands
from tests.published import publish

PAGE = "docs/guides/data.md"
LABELS = {"fine": "good", "dull": "bad"}


@pytest.mark.parametrize("name", blocks(PAGE, "yaml"))
def test_a_block_is_a_configuration_of_data_sets_that_fit(name, tmp_path):
    file = tmp_path / "block.yaml"
    file.write_text(blocks(PAGE, "yaml")[name])
    config = configure(verb_of_file(file), path=file)
    settings = getattr(config.data, "datasets", None) or (config.data.dataset,)
    assert set(settings) <= set(config.data.sets)
    for name in config.data.sets:
        find_dataset(name, config.data)


@pytest.mark.guide
def test_from_a_file_to_predictions_and_a_score(road, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = {"max_position_embeddings": 512}
    publish(tmp_path / "google/electra-small-discriminator", "electra", "ForPreTraining", **sizes)
    rows = [
        f"a {word} film number {n},{label}" for n in range(20) for word, label in LABELS.items()
    ]
    (tmp_path / "reviews.csv").write_text("\n".join(["review,verdict", *rows]) + "\n")
    (tmp_path / "new.csv").write_text("review\na fine film\na dull film\n")
    (tmp_path / "labelled.csv").write_text("review,verdict,page\na fine film,good,1\n")
    for words in commands(blocks(PAGE)["start"]):
        done = road(*words[1:])
        assert done.code == 0, (words, done.err)
    predicted = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {row["label"] for row in predicted} <= {*LABELS.values()}
    assert len(predicted) == 2
