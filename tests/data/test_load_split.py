"""Where data lies, which head a task has, and a split read and encoded."""

import pytest

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset, load_split, resolve_root
from road_ray.data.task_and_dataset import SPECIAL_HEADS, JointSpan, Reason
from road_ray.errors import ConfigError
from tests.row_files import write_rows


def test_a_root_is_named_or_taken_from_the_environment_or_the_hub(world, monkeypatch):
    monkeypatch.delenv("ROAD_DATA", raising=False)
    assert resolve_root(str(world)) == world
    assert resolve_root(None) is None
    monkeypatch.setenv("ROAD_DATA", str(world))
    assert resolve_root(None) == world
    assert resolve_root("hub") is None
    for place in ("/nowhere", str(world / "newsqa" / "dev.json")):
        with pytest.raises(ConfigError, match="`miniature` or `hub`"):
            resolve_root(place)
    monkeypatch.setenv("ROAD_DATA", "/elsewhere")
    with pytest.raises(ConfigError, match="ROAD_DATA = /elsewhere"):
        resolve_root(None)


def test_the_first_rows_of_a_seeded_shuffle_are_kept_for_training_only(world, tokenizer):
    few = SourceConfig(root=str(world), max_rows=10)
    first, again = (load_split("sst2", "train", few, tokenizer) for _ in range(2))
    ids = [[example.id for example in split.examples] for split in (first, again)]
    assert len(ids[0]) == len(first.features) == 10
    assert ids[0] == ids[1] != [str(number) for number in range(10)]
    assert ids[0] == sorted(ids[0], key=int), "the order of the file is kept"
    assert len(load_split("sst2", "dev", few, tokenizer).examples) == 25
    more = SourceConfig(root=str(world), max_rows=1000)
    assert len(load_split("sst2", "train", more, tokenizer).examples) == 150


def test_pairs_without_order_are_learnt_both_ways_round(world, tokenizer, monkeypatch):
    source = SourceConfig(root=str(world), max_rows=3)
    assert len(load_split("qqp", "train", source, tokenizer).examples) == 3
    monkeypatch.setattr("road_ray.data.load_split._UNORDERED", ("qqp",))
    split = load_split("qqp", "train", source, tokenizer)
    assert [e.texts for e in split.examples[3:]] == [e.texts[::-1] for e in split.examples[:3]]
    assert split.features.gold["labels"][:3].tolist() == split.features.gold["labels"][3:].tolist()
    assert len({e.id for e in split.examples}) == 6
    assert len(load_split("qqp", "train", source, tokenizer, evaluated=True).examples) > 3


@pytest.mark.parametrize("kind", ["conll", "jsonl"])
def test_tags_of_a_file_are_mapped_to_those_of_the_task(tmp_path, kind, tokenizer):
    words, tags = ["Ann", "met", "Bo", "Li"], ["S-P", "O", "B-P", "I-P"]
    mapped = {"S-P": "B-PER", "B-P": "B-PER", "I-P": "I-PER"}
    file = tmp_path / f"t.{kind}"
    if kind == "conll":
        file.write_text("".join(f"{w} {t}\n" for w, t in zip(words, tags, strict=True)) + "\n")
    else:
        write_rows(file, [{"words": words, "tags": tags}])
    entry = {"kind": "tag", "train": str(file), "labels": ["O", "B-PER", "I-PER"]}
    entry |= {"label_map": mapped} | ({} if kind == "conll" else {"text": "words", "label": "tags"})
    source = SourceConfig(sets={"names": entry})
    split = load_split("names", "train", source, tokenizer)
    assert split.examples[0].tags == tuple(mapped.get(tag, tag) for tag in tags)


@pytest.mark.parametrize(("name", "share"), [("sst2", 0.2), ("mnli", 0.1), ("rte", 1 / 4)])
def test_exactly_the_asked_share_of_training_labels_is_another(world, tokenizer, name, share):
    clean = SourceConfig(root=str(world), max_rows=40)
    noisy = clean.model_copy(update={"label_noise": share})
    right, wrong = (load_split(name, "train", each, tokenizer) for each in (clean, noisy))
    assert [e.texts for e in right.examples] == [e.texts for e in wrong.examples]
    labels = [split.features.gold["labels"] for split in (right, wrong)]
    assert (labels[0] != labels[1]).sum() == round(share * 40)
    again = load_split(name, "train", noisy, tokenizer).features.gold["labels"]
    assert again.tolist() == labels[1].tolist()
    for part, evaluated in (("dev", False), ("train", True)):
        splits = [
            load_split(name, part, each, tokenizer, evaluated=evaluated) for each in (clean, noisy)
        ]
        assert splits[0].examples == splits[1].examples


def test_labels_of_spans_cannot_be_flipped(world, tokenizer):
    source = SourceConfig(root=str(world), label_noise=0.1)
    with pytest.raises(ConfigError, match="squad_v2 has no classes"):
        load_split("squad_v2", "train", source, tokenizer)


@pytest.mark.parametrize("head", SPECIAL_HEADS, ids=lambda head: head.override)
@pytest.mark.parametrize("name", ["squad_v2", "mnli", "sst2", "stsb", "conll2003", "swag"])
def test_a_data_set_gets_the_head_that_was_asked_for_where_it_fits_and_no_other(head, name):
    plain = find_dataset(name, SourceConfig())
    result = find_dataset(name, SourceConfig(**{head.key: head.value}))
    expected = {"span_head": {"squad_v2": JointSpan}, "pair_head": {"mnli": Reason}}[head.key]
    if name not in expected:
        assert result == plain
        return
    dataset, task = result
    assert type(task.kind) is expected[name]
    assert task.name == dataset.task == f"{plain[1].name}_{head.value}"
    assert getattr(task.kind, "labels", None) == getattr(plain[1].kind, "labels", None)
