"""A pre-training before it starts: its floating-point operations by the rules of the ELECTRA paper,
and its rows with hidden tokens and the generator's replacements.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.data.corpus.prepare_corpus import corpus_tokenizer
from road_ray.data.model_files import read_config
from road_ray.errors import ConfigError
from road_ray.models.config import EncoderConfig
from road_ray.models.encoder import generator_directory, scale_encoder, size_of
from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining import registry
from road_ray.objectives.pretraining.generator import CorruptingObjective, MaskingObjective
from road_ray.recipes.pretraining.build_objective import stored_config
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import corpus_settings, prepare
from road_ray.recipes.run_directory.recorded_config import RECORD, load_recorded
from road_ray.training import profile
from road_ray.training.checkpoint_directory import Checkpoints
from road_ray.training.checkpoint_state import load_weights
from road_ray.training.worker import Worker


def flops_per_step(config: PretrainConfig) -> float:
    """Return the operations of a step on rows of the maximum length. Backward passes count as much
    as forward passes.
    """
    stored = stored_config(config.encoder, config.init)
    size = config.encoder if stored is None else size_of(stored, config.encoder)
    small = scale_encoder(size, config.generator.scale, config.generator.depth)
    if stored is not None and config.generator.init:
        small = size_of(read_config(generator_directory(config.generator.init)), small)
    data = corpus_settings(config)
    vocab_size = data.vocab_size if data.tokenizer is None else len(corpus_tokenizer(data, ""))
    generates = "generator" in registry.models_of(registry.objective_class(config.objective.name))
    generates = generates and config.generator.kind in ("model", "frozen")
    length = data.max_length_tokens
    row = profile.encoder_flops(size, vocab_size, length)
    row += _head_flops(config, size, small, vocab_size, length)
    if generates:
        generator = profile.encoder_flops(small, vocab_size, length)
        generator += profile.word_head_flops(small, vocab_size, length)
        # A frozen one has no backward pass.
        row += generator / 2 if config.generator.kind == "frozen" else generator
    return 2 * data.batch_size * config.training.passes * row


def _head_flops(
    config: PretrainConfig, size: EncoderConfig, small: EncoderConfig, vocab_size: int, length: int
) -> float:
    """Return the operations of the main encoder's heads; the generator's is counted apart."""
    name, kind = config.objective.name, registry.objective_class(config.objective.name)
    defaults = registry.options_of(kind)
    candidates = int(config.objective.options.get("candidates", defaults.get("candidates", 1)))
    detection = profile.detection_head_flops(size, length)
    match name:
        case "all_tokens_mlm":
            return profile.word_head_flops(size, vocab_size, length, 1.0)
        case "mc_bert":
            # Its generator samples at every position, not only at the chosen ones.
            everywhere = profile.word_head_flops(small, vocab_size, length, 1.0)
            more = everywhere - profile.word_head_flops(small, vocab_size, length)
            return more + profile.word_head_flops(size, candidates, length, 1.0)
        case "teams":
            choice = profile.word_head_flops(size, candidates, length)
            return profile.layer_flops(size, length) + detection + choice
    # The user's own too.
    is_detector = "model" not in registry.models_of(kind)
    return detection if is_detector else profile.word_head_flops(size, vocab_size, length)


def peek(place: str, rows: int) -> str:
    """Return the first ``rows`` of the next batch of a run, corrupted by the networks of its newest
    checkpoint, or by new ones.

    ``[MASK: word]`` is to be predicted; ``[word -> other]`` was replaced by the generator;
    ``[word]`` was chosen, and the generator predicted the original.
    """
    config = load_recorded(PretrainConfig, Path(place) / RECORD)
    made = prepare(config, Worker())
    newest = Checkpoints(Path(place) / "checkpoints").newest()
    step = 0
    if newest is not None:
        load_weights(made.objective, newest)
        step = int(newest.name.removeprefix("step-"))
    batch = made.objective.prepare(made.stream[step * config.training.passes])
    title = f"{config.objective.name}, the batch after step {step}"
    marked = _marked(made.objective, batch, made.tokenizer)
    lines = [f"{title}: {len(marked[:rows])} of {len(marked)} rows"]
    for tokens in marked[:rows]:
        lines += ["", " ".join(tokens)]
    return "\n".join(lines)


@torch.no_grad()
def _marked(objective: Objective, batch: Batch, tokenizer: Any) -> list[list[str]]:
    """Return the tokens of each row, without padding, with marks on hidden ones."""
    objective.eval()
    tokens: Tensor = batch["input_ids"]
    if isinstance(objective, CorruptingObjective):
        made, form = objective.corrupted(batch), "[{} -> {}]"
        chosen, seen = made.chosen, made.tokens
    elif isinstance(objective, MaskingObjective):
        (chosen, seen), form = objective.hide(batch), "[MASK: {}]"
    else:
        raise ConfigError(f"{type(objective).__name__} hides nothing: there is nothing to show")
    shown = []
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        words = tokenizer.convert_ids_to_tokens(tokens[row, :length].tolist())
        corrupted = tokenizer.convert_ids_to_tokens(seen[row, :length].tolist())
        for place in chosen[row, :length].nonzero().flatten().tolist():
            word, other = words[place], corrupted[place]
            words[place] = f"[{word}]" if word == other else form.format(word, other)
        shown.append(words)
    return shown
