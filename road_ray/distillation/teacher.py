"""A teacher: a frozen model that answers a batch with logits, and its inputs.

One with another tokenizer than the student reads the texts of the rows. ``check_parity`` compares
answers that came through an actor or a table with those of the weights.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from road_ray.data.batching import INPUTS, padded_width
from road_ray.data.model_files import locate_model, stored_head
from road_ray.data.task_and_dataset import Choose, Span, Tag, Task
from road_ray.data.tokenizer import gives_segments, pad_id_of
from road_ray.distillation.cross_tokenizer import PAD_LOGIT, TextReader, TokenRow
from road_ray.distillation.teacher_directory import PLAIN, TeacherOptions, check_teacher
from road_ray.errors import CheckpointError
from road_ray.models.architectures import auto_class, input_names, is_decoder, longest_row
from road_ray.models.load_weights import load_stored
from road_ray.models.multitask import LikeTransformers, load_trained
from road_ray.models.precision import autocast_dtype, compile_for_all_shapes, precision_of

# In a batch ``[B]``: teachers that read texts answer for their own tokens, not for the student's.
OWN_TOKENS = "own_tokens"


class Teacher:
    """A frozen ``transformers`` model, its classes in the order of the task's labels.

    With another tokenizer than the student's it has a ``reader``, and ``logits`` needs the
    ``texts`` of the rows, ``[B]`` tuples; for spans ``offsets`` ``[B, 2, L]`` and for tags
    ``words`` ``[B, L]`` of the student's tokens, as ``row_texts`` makes them. ``stats`` are sums
    over the rows of the last answer: none for the student's tokenizer.
    """

    def __init__(
        self,
        directory: str | Path,
        task: Task,
        options: TeacherOptions = PLAIN,
        device: str | torch.device = "cpu",
    ) -> None:
        self.directory, self.device = locate_model(directory), torch.device(device)
        self.task, self.stats = task, dict[str, float]()
        fit = check_teacher(self.directory, task, options)
        order = fit.order
        self._model: Any
        if stored_head(self.directory) is not None:
            plain, order = replace(task, head=None), None  # not the student's; in the task's order
            self._model = LikeTransformers(
                load_trained(str(directory), plain, options.label_map), task.name
            )
        else:
            self._model, missing = load_stored(auto_class(task.kind), self.directory)
            if missing:
                raise CheckpointError(
                    f"{self.directory}: {len(missing)} weights are not in the file and would be "
                    f"random: {missing[:3]}\n"
                    "  fix: save the fine-tuned model whole with save_pretrained"
                )
        self._model.to(device).eval().requires_grad_(False)
        self._order = None if order is None else torch.tensor(order, device=device)
        self._segments = "token_type_ids" in input_names(self._model) and (
            fit.tokenizer is None or gives_segments(fit.tokenizer)  # none if its own rows have none
        )
        self.positions = longest_row(self._model.base_model)
        width, chosen = int(self._model.config.hidden_size), options.precision
        self._autocast = autocast_dtype(precision_of(task.kind, chosen), self.device, width)
        if self._autocast is not None:  # once, as autocast would for every batch: the same logits
            for part in self._model.modules():
                if isinstance(part, torch.nn.Linear):
                    part.to(self._autocast)
        self.reader: TextReader | None = None
        if fit.reads_texts:
            self.reader, config = TextReader(self.directory, task), self._model.config
            self._pad_id: int | None = (
                config.pad_token_id if is_decoder(config) else pad_id_of(self.reader.tokenizer)
            )
        if options.compiled:
            compile_for_all_shapes(self._model)

    def __call__(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the logits of a batch."""
        return self.logits(**inputs_of(batch))

    def logits(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **texts: Any,
    ) -> Tensor:
        """Return raw logits in fp32. ``[B, L] -> [B, C]``, or ``[B, 2, L]`` (start, end) for spans
        and ``[B, L, C]`` for tags, with ``PAD_LOGIT`` at padding, which no rule and no loss reads.

        Those of a ``reader`` are for the student's tokens too: of spans log-probabilities, of tags
        at the first token of each word. With ``own_tokens`` in the batch, they are for its own.
        Without one, ``texts`` are not read.
        """
        if self.reader is None:
            return self._logits(input_ids, attention_mask, token_type_ids)
        rows = self.reader.rows(self.reader.needed(texts, "texts"))
        answers = self._answers(self.reader, rows)
        if OWN_TOKENS in texts:
            return answers
        batch = {"input_ids": input_ids, "attention_mask": attention_mask, **texts}
        carried, self.stats = self.reader.carried(rows, answers, batch)
        return carried

    def _logits(
        self, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None
    ) -> Tensor:
        device, width = self.device, input_ids.shape[-1]
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self._segments:
            inputs["token_type_ids"] = token_type_ids
        autocast = torch.autocast(device.type, self._autocast, enabled=self._autocast is not None)
        with torch.inference_mode(), autocast:
            most = width
            if attention_mask is not None and not attention_mask[..., self.positions :].any():
                most = min(width, self.positions)  # padding may be beyond the position table
            present = {
                name: x[..., :most].to(device).long() for name, x in inputs.items() if x is not None
            }
            output = self._model(**present)
        # Cloned outside: a tensor of inference mode cannot be saved for a backward pass.
        if isinstance(self.task.kind, Span):
            logits = torch.stack([output.start_logits, output.end_logits], 1).float()
        else:
            logits = output.logits.float().clone()
        if self._order is not None:
            logits = logits[..., self._order]
        if isinstance(self.task.kind, Span | Tag) and attention_mask is not None:
            axis = 1 if isinstance(self.task.kind, Span) else 2
            beyond = (0, width - most) if axis == 1 else (0, 0, 0, width - most)
            logits = pad(logits, beyond)
            padding = attention_mask.to(logits.device) == 0
            logits = logits.masked_fill(padding.unsqueeze(axis), PAD_LOGIT)
        if not bool(logits.isfinite().all()):
            raise CheckpointError(
                f"{self.directory}: the teacher's logits are not finite\n  fix: fine-tune it again"
            )
        return logits

    def _answers(self, reader: TextReader, examples: Sequence[Sequence[TokenRow]]) -> Tensor:
        """Return the model's logits in own tokens. ``-> [B, C]``, ``[B, 2, T]``, ``[B, T, C]``."""
        rows = [row for example in examples for row in example]
        longest = max(len(row.tokens) for row in rows)
        width = padded_width(longest, max(reader.longest, longest))
        padding = self._pad_id
        if padding is None:  # a decoder finds the last token of a row by the id of padding alone,
            # so one without padding gets an id that no row has, which gives the last token
            used = {int(token) for row in rows for token in row.tokens}
            padding = next(number for number in range(len(used) + 1) if number not in used)
            self._model.config.pad_token_id = padding
        ids = np.full((len(rows), width), padding, np.int64)
        mask, segments = np.zeros_like(ids), np.zeros_like(ids)
        for number, row in enumerate(rows):
            length = len(row.tokens)
            ids[number, :length] = row.tokens
            mask[number, :length] = 1
            if row.segments is not None:
                segments[number, :length] = row.segments
        inputs = [torch.from_numpy(array) for array in (ids, mask, segments)]
        if isinstance(self.task.kind, Choose):
            inputs = [array.view(-1, self.task.kind.choices, width) for array in inputs]
        answers = self._logits(*inputs)
        if isinstance(self.task.kind, Tag):  # the rows of each sentence are joined
            parts = iter(answers)
            joined = [torch.cat([next(parts)[: len(r.tokens)] for r in rows]) for rows in examples]
            answers = pad_sequence(joined, batch_first=True, padding_value=PAD_LOGIT)
        return answers


def inputs_of(
    batch: Mapping[str, Any], rows: NDArray[np.integer[Any]] | None = None
) -> dict[str, Any]:
    """Return the inputs of a teacher: tensors ``[B, L]`` each, and for teachers with another
    tokenizer the ``texts``, ``[B]`` tuples of strings, with ``offsets`` of spans or ``words``; of
    these ``rows`` of the batch, in this order, or of all.
    """
    names = [*INPUTS, "offsets", "words", OWN_TOKENS]
    inputs: dict[str, Any] = {
        name: torch.as_tensor(batch[name]) for name in names if batch.get(name) is not None
    }
    if batch.get("texts") is not None:
        texts = np.empty(len(batch["texts"]), object)
        texts[:] = [(row,) if isinstance(row, str) else tuple(row) for row in batch["texts"]]
        inputs["texts"] = texts
    if rows is None:
        return inputs
    chosen = np.asarray(rows, np.int64)
    index = torch.from_numpy(chosen)
    return {
        name: value[index.to(value.device)] if isinstance(value, Tensor) else value[chosen]
        for name, value in inputs.items()
    }


# Fraction of the largest logit. Four roundings of fp16 (2^-11 each): one of the store, the rest for
# another device's order of summation; in bf16 that order changes the rounding of every layer, and
# auto may be bf16 on one machine and fp32 on the next.
_ALLOWED_FRACTION: Mapping[str, float] = {"fp32": 2.0**-9, "bf16": 2.0**-5, "auto": 2.0**-5}


def check_parity(
    batch: Mapping[str, object],
    directories: Sequence[str | Path],
    task: Task,
    path: str,
    answers: Tensor,
    options: TeacherOptions = PLAIN,
    device: str | torch.device = "cpu",
) -> float:
    """Return the largest difference between the logits of the teachers' weights and their
    ``answers`` ``[M, B, ..., C]``, which came through ``path``.

    Raises ``CheckpointError`` with the first teacher that differs by more than rounding.
    """
    plain = replace(options, compiled=False)
    largest = 0.0
    for index, (directory, actual) in enumerate(zip(directories, answers.cpu(), strict=True)):
        # One teacher at a time: the next may need its memory.
        expected = Teacher(directory, task, plain, device)(batch).cpu()
        real = expected > -1000.0  # without the padding of spans, which is always equal
        scale = expected[real].abs().amax().item() if real.any() else 0.0
        allowed = _ALLOWED_FRACTION[precision_of(task.kind, options.precision)] * max(1.0, scale)
        difference = math.inf
        if expected.shape == actual.shape:
            difference = (expected - actual).abs().amax().item() if actual.numel() else 0.0
        if not difference <= allowed:  # true for NaN as well
            raise CheckpointError(
                f"teacher {index} ({directory}): through {path} its logits differ "
                f"from those of its weights by up to {difference:.3g}\n"
                f"  allowed: {allowed:.3g}, the largest difference by rounding\n"
                "  fix: give all machines the same weights and versions; if it is its table, "
                "remove this teacher's directory (road data store ls); else "
                "distillation.precision=fp32, distillation.torch_compile=false\n"
                "  kept: everything; no step was made"
            )
        largest = max(largest, difference)
    return largest
