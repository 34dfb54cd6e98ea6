"""A teacher that does not fit is refused by name, before anything of it runs."""

import hashlib

import pytest

from road_ray.data.catalog import task
from road_ray.distillation.teacher_directory import (
    LABEL_MAP,
    TeacherOptions,
    check_equal_tokenizers,
    check_teacher,
    decisive_entries,
    fingerprint_tokenizer,
    teacher_entry,
    teacher_tokenizer,
)
from road_ray.errors import CheckpointError
from tests.runs import edit
from tests.tiny_teacher import make_teacher, make_tokenizer

NLI = task("nli")


def words_of(tokenizer):
    """Its vocabulary in the order of the ids."""
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)


def test_a_tokenizer_keeps_its_fingerprint_on_disk_and_in_use(tmp_path):
    tokenizer = make_tokenizer()
    before = fingerprint_tokenizer(tokenizer)
    tokenizer("good film " * 20, truncation=True, max_length=8, padding="max_length")
    tokenizer.save_pretrained(tmp_path)
    assert fingerprint_tokenizer(tokenizer) == before
    assert fingerprint_tokenizer(teacher_tokenizer(tmp_path)) == before


def test_the_weights_are_known_by_the_hash_of_the_file(tmp_path):
    make_teacher(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = teacher_entry(tmp_path, NLI)["weights_sha256"]
    assert whole == hashlib.sha256(file.read_bytes()).hexdigest()
    file.rename(tmp_path / "model-00001-of-00002.safetensors")
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(b"more")
    assert teacher_entry(tmp_path, NLI)["weights_sha256"] != whole


def test_labels_are_aligned_by_name_whatever_their_order_and_case(tmp_path):
    labels = ("ENTAILMENT", "Neutral ", "contradiction")
    assert check_teacher(make_teacher(tmp_path, labels=labels), NLI).order == (2, 0, 1)


def test_labels_of_other_names_are_refused_with_the_way_out(tmp_path):
    names = {"LABEL_0": "entailment", "LABEL_1": "neutral", "LABEL_2": "contradiction"}
    make_teacher(tmp_path, labels=tuple(names))
    assert check_teacher(tmp_path, NLI, TeacherOptions(label_map=names)).order == (2, 0, 1)
    with pytest.raises(CheckpointError, match=rf"config\.json: .*(.|\n)*{LABEL_MAP}='"):
        check_teacher(tmp_path, NLI, key=LABEL_MAP)


@pytest.mark.parametrize(
    "name",
    ["modeling_x.py", "pytorch_model.bin", "weights.pkl", "config.json", "tokenizer_config.json"],
)
def test_a_file_or_a_field_that_can_run_code_is_refused(tmp_path, name):
    assert check_teacher(make_teacher(tmp_path), NLI).order is None
    field = name.endswith(".json")
    if field:
        edit(tmp_path / name, auto_map={"AutoModel": "x.Y"})
    else:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(CheckpointError, match=f"{name}.*auto_map" if field else name):
        check_teacher(tmp_path, NLI)


def test_a_tokenizer_with_two_ids_swapped_is_another_one(tmp_path):
    """As one of another case, or with another mark."""
    vocab = words_of(make_tokenizer())
    vocab[5], vocab[6] = vocab[6], vocab[5]
    swapped = make_tokenizer(vocab)
    others = [swapped, make_tokenizer(do_lower_case=False), make_tokenizer(sep_token="p")]
    directory = make_teacher(tmp_path / "a")
    students = [fingerprint_tokenizer(student) for student in (make_tokenizer(), *others)]
    fits = [check_teacher(directory, NLI, TeacherOptions(student=student)) for student in students]
    assert [fit.reads_texts for fit in fits] == [False, True, True, True]
    swapped.save_pretrained(make_teacher(tmp_path / "b"))
    with pytest.raises(CheckpointError, match="another tokenizer than the first"):
        check_equal_tokenizers([directory, tmp_path / "b"])


def test_another_head_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="ForQuestionAnswering"):
        check_teacher(make_teacher(tmp_path), task("mrc"))
    with pytest.raises(CheckpointError, match=r"3 numbers.*has 1"):
        check_teacher(tmp_path, task("similarity"))
    with pytest.raises(CheckpointError, match=r"config\.json: cannot be read: No such file"):
        check_teacher(tmp_path / "nowhere", NLI)


def test_more_token_ids_than_embeddings_are_refused(tmp_path):
    make_tokenizer([*words_of(make_tokenizer()), "x"]).save_pretrained(make_teacher(tmp_path))
    with pytest.raises(CheckpointError, match="tokenizer has 25 entries, the embedding table 24"):
        check_teacher(tmp_path, NLI)


def test_a_teacher_moves_and_is_judged_as_itself_and_labels_or_shape_make_another(tmp_path):
    first, after, shaped = (make_teacher(tmp_path / name) for name in "abc")
    renamed = make_teacher(tmp_path / "d", labels=("entailment", "neutral", "contradiction"))
    (after / "road_ray.json").write_text('{"metrics": {"x": 1}, "seed": 3, "other": 1}')
    edit(after / "config.json", transformers_version="9")
    edit(shaped / "config.json", num_attention_heads=4)
    entries = [teacher_entry(place, NLI) for place in (first, after, renamed, shaped)]
    who = [decisive_entries(entry) for entry in entries]
    ours = {"directory": str(after), "metrics": {"x": 1}, "seed": 3}  # no other entries
    assert entries[1] == entries[0] | ours
    assert who[0] == who[1]
    assert who[2] != who[0] != who[3]
    assert len({entry["weights_sha256"] for entry in who}) == 1
