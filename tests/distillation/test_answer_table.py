"""Rows by their content, whoever made the batch; answers without padding and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from road_ray.data.catalog import task
from road_ray.data.task_and_dataset import Choose, Tag
from road_ray.distillation.answer_table import counts_of, padded, rows_of, unpadded, value_type
from road_ray.distillation.cross_tokenizer import PAD_LOGIT
from road_ray.errors import CheckpointError

NLI, MRC, SIMILARITY = (task(name).kind for name in ("nli", "mrc", "similarity"))


def inputs(*rows: list[int], width: int = 8, left: bool = False):
    ids, mask = torch.zeros(2, len(rows), width, dtype=torch.long)
    for index, row in enumerate(rows):
        where = slice(width - len(row), None) if left else slice(len(row))
        ids[index, where], mask[index, where] = torch.tensor(row), 1
    return {"input_ids": ids, "attention_mask": mask}


def test_padding_side_width_and_kind_of_integer_do_not_matter():
    right = rows_of(inputs([5, 6, 7], [8, 9])).keys
    assert (rows_of(inputs([8, 9], [5, 6, 7], width=13)).keys[::-1] == right).all()
    assert (rows_of(inputs([5, 6, 7], [8, 9], left=True)).keys == right).all()
    small = {name: x.to(torch.int32) for name, x in inputs([5, 6, 7], [8, 9]).items()}
    assert (rows_of(small).keys == right).all()
    zeros = inputs([5, 6, 7], [8, 9]) | {"token_type_ids": torch.zeros(2, 8, dtype=torch.long)}
    assert (rows_of(zeros).keys == right).all()


def test_another_token_segment_or_length_is_another_row():
    first = inputs([5, 6, 7, 8])
    segments = torch.tensor([[0, 0, 1, 1, 0, 0, 0, 0]])
    rest = [
        rows_of(first),
        rows_of(first | {"token_type_ids": segments}),
        rows_of(inputs([5, 6, 8, 7])),
        rows_of(inputs([5, 6, 7])),
        rows_of(inputs([5, 6, 7, 8, 0])),  # a real token that has the padding's id
    ]
    assert len({rows.keys.tobytes() for rows in rest}) == 5


def test_a_row_of_choices_has_one_key():
    ids = torch.arange(24).reshape(2, 3, 4)
    keys = rows_of({"input_ids": ids}).keys
    assert keys.shape == (2, 2)
    moved = ids[:, [1, 0, 2]]
    assert (rows_of({"input_ids": moved}).keys != keys).any(1).all()


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind", [Tag(("O", "B", "I")), MRC], ids=str)
def test_tokens_lose_their_padding_and_get_it_back(kind, left):
    given = inputs([5, 6, 7], [8, 9], left=left)
    rows, width = rows_of(given), kind.width
    tokens = torch.arange(8.0 * 2 * width).reshape(2, 8, width)
    answers = tokens if isinstance(kind, Tag) else tokens.mT  # [B, L, C], or [B, 2, L] of spans
    flat = unpadded(answers, rows, kind)
    assert flat.dtype == np.float16
    assert len(flat) == width * 5 == counts_of(kind, rows.lengths).sum()
    back = padded(np.split(flat, [width * 3]), rows, kind)
    back = back if isinstance(kind, Tag) else back.mT
    real = given["attention_mask"].bool()
    assert torch.equal(back[real], tokens[real])
    assert (back[~real] == PAD_LOGIT).all()


def test_choices_have_one_number_each():
    rows = rows_of({"input_ids": torch.arange(24).reshape(2, 3, 4)})
    answers = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    numbers = unpadded(answers, rows, Choose(3))
    assert torch.equal(padded(np.split(numbers, 2), rows, Choose(3)), answers)


def test_classes_are_rounded_to_half_and_numbers_are_not():
    rows = rows_of(inputs([5, 6], [7]))
    answers = torch.tensor([[1 / 3, -2.5, 1000.1], [0.0, 1.0, 2.0]])
    back = padded(np.split(unpadded(answers, rows, NLI), 2), rows, NLI)
    assert torch.equal(back, answers.half().float())
    scores = torch.tensor([[1 / 3], [4.123456]])
    assert torch.equal(
        padded(np.split(unpadded(scores, rows, SIMILARITY), 2), rows, SIMILARITY), scores
    )
    assert value_type(SIMILARITY) is np.float32


@pytest.mark.parametrize("bad", [7e4, float("nan"), float("-inf")])
def test_what_half_cannot_hold_is_refused(bad):
    with pytest.raises(CheckpointError, match="cannot be kept"):
        unpadded(torch.tensor([[0.0, bad, 1.0]]), rows_of(inputs([5])), NLI)
