"""A teacher answers as the plain model does, decoders too, and every way to ask it alike."""

from functools import partial

import pytest
import torch
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast

import road_ray as rr
from road_ray.data import catalog
from road_ray.data.catalog import task
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.distillation.teacher import Teacher, TeacherOptions, check_parity, inputs_of
from road_ray.distillation.teacher_directory import check_teacher, teacher_entry
from road_ray.errors import CheckpointError
from tests.published import TEXTS, byte_pairs, publish
from tests.tiny_teacher import make_batch, make_teacher

END, PAD = "<|endoftext|>", "<|pad|>"


def publish_decoder(directory, family, padding):
    """A decoder with random weights and a byte-level tokenizer, which may have no padding."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_pairs(TEXTS, [END, PAD], 400), eos_token=END, pad_token=padding
    )
    heads = {} if family == "gpt2" else {"num_key_value_heads": 2, "head_dim": 8}
    head = {"head": "ForSequenceClassification", "labels": ("negative", "positive")}
    publish(directory, family, tokenizer=tokenizer, **head, **heads)
    return AutoModelForSequenceClassification.from_pretrained(directory).eval(), tokenizer


@pytest.mark.parametrize(
    ("family", "padding"),
    [("gpt2", None), ("gpt2", END), ("qwen3", PAD), ("llama", PAD), ("llama", None)],
)
def test_a_decoder_answers_in_batches_as_transformers_does_on_one_text(family, padding, tmp_path):
    model, tokenizer = publish_decoder(tmp_path, family, padding)
    task = catalog.task("sentiment")
    check_teacher(tmp_path, task, TeacherOptions(student="another"))
    words = " ".join(TEXTS).split()
    texts = [(" ".join(words[n % 9 : n % 9 + 1 + n % 17]),) for n in range(200)]
    teacher = Teacher(tmp_path, task, TeacherOptions(student="another", precision="fp32"))
    batches = [texts[begin : begin + 16] for begin in range(0, len(texts), 16)]
    answers = [teacher.logits(torch.zeros(len(b), 1).long(), texts=b) for b in batches]
    with torch.no_grad():
        alone = [model(tokenizer(text, return_tensors="pt").input_ids).logits for (text,) in texts]
    torch.testing.assert_close(torch.cat(answers), torch.cat(alone), rtol=1e-5, atol=1e-5)


NLI = task("nli")
BATCH = make_batch(0)


@pytest.fixture
def directories(tmp_path):
    return [make_teacher(tmp_path / str(seed), seed) for seed in range(2)]


@pytest.fixture
def check(directories):
    return partial(check_parity, BATCH, directories, NLI)


def answers_of(directories, precision="auto"):
    options = TeacherOptions(precision=precision)
    return LocalEnsemble(directories, NLI, options).gather(inputs_of(BATCH))


def test_rounding_is_not_drift(check, directories):
    answers = answers_of(directories)
    assert check("its actor", answers) == 0.0
    assert 0 < check("its table", answers.half().float()) < 2**-8


def moved(by):
    def move(answers):
        answers[1, 2, 0] += by
        return answers

    return move


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (moved(0.5), r"teacher 1 \(.*1\).*its table.*by up to 0\.5.*allowed"),
        (moved(float("nan")), "teacher 1 .*by up to nan"),
        (lambda answers: answers.flip(0), "teacher 0"),
        (lambda answers: answers[..., [1, 0, 2]], "teacher 0"),
        (lambda answers: answers[..., :1], "by up to inf"),
    ],
    ids=["one number", "NaN", "order of teachers", "order of classes", "shape"],
)
def test_drift_names_teacher_path_and_sizes(check, directories, change, message):
    with pytest.raises(CheckpointError, match=f"(?s){message}"):
        check("its table", change(answers_of(directories)))


def test_numbers_are_computed_in_fp32(tmp_path):
    """Of years, bf16 has every eighth."""
    place = make_teacher(tmp_path, kind="similarity")
    model = AutoModelForSequenceClassification.from_pretrained(place)
    torch.nn.init.constant_(model.classifier.out_proj.bias, 1960.3)
    model.save_pretrained(place)
    ways = [TeacherOptions(precision=precision) for precision in ("fp32", "bf16")]
    exact, halved = (Teacher(place, task("similarity"), way)(BATCH) for way in ways)
    assert torch.equal(exact, halved)
    assert len({teacher_entry(place, task("similarity"), way)["precision"] for way in ways}) == 1
    values = [rr.load(place, precision=way.precision)("fine film")["value"] for way in ways]
    assert values[0] == values[1] != round(values[0])


def test_bf16_is_rounding_only_where_teachers_may_take_it(check, directories):
    halved = answers_of(directories, "bf16")
    check("its actor", halved)  # auto: this machine may differ from the actor's
    with pytest.raises(CheckpointError, match="rounding"):
        check("its actor", halved, TeacherOptions(precision="fp32"))


@pytest.mark.trained
def test_a_student_learns_from_a_decoder(sentiment, tmp_path):
    publish_decoder(tmp_path / "gpt2", "gpt2", None)
    chosen = {"distillation.teachers": [str(tmp_path / "gpt2")], "distillation.num_teachers": 1}
    chosen |= {"distillation.host": "process", "training.steps": 2}
    for answers in ("live", "once"):
        chosen["distillation.answers"] = answers
        run = rr.distill(overrides=sentiment | chosen, run_dir=tmp_path / answers)
        assert "eval/sst2/accuracy" in run.metrics
