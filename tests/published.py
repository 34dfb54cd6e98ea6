"""Tiny models of any family with a tokenizer of its kind, saved as published ones are."""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import CONFIG_MAPPING, DebertaV2TokenizerFast, RobertaTokenizerFast

from road_ray.data.task_and_dataset import Task
from road_ray.data.tokenizer import train_wordpiece
from road_ray.models.encoder import load_encoder
from road_ray.models.multitask import MultitaskModel, keep_pooler

_WIDTH = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
_POSITIONS = 160
_SIZES: dict[str, dict[str, Any]] = {
    "electra": _WIDTH | {"embedding_size": 8},
    "albert": _WIDTH | {"embedding_size": 8},
    "roberta": _WIDTH | {"max_position_embeddings": _POSITIONS + 2, "type_vocab_size": 1},
    "xlm-roberta": _WIDTH | {"max_position_embeddings": _POSITIONS + 2, "type_vocab_size": 1},
    "mpnet": _WIDTH | {"max_position_embeddings": _POSITIONS + 2},
    "deberta-v2": _WIDTH
    | {"relative_attention": True, "position_buckets": 8, "pos_att_type": "p2c|c2p"}
    # As published for version 3: the class does not list share_att_key and norm_rel_ebd.
    | {"type_vocab_size": 0, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
    | {"position_biased_input": False},
    "modernbert": _WIDTH | {"local_attention": 16},
    "eurobert": _WIDTH,
    "nomic_bert": _WIDTH,
    "jina_embeddings_v3": _WIDTH | {"type_vocab_size": 1},
    "distilbert": {"dim": 16, "n_heads": 2, "hidden_dim": 24},
}
FAMILIES = ("bert", *_SIZES)
_TOKENIZERS = {
    "roberta": "bpe",
    "modernbert": "bpe",
    "eurobert": "bpe",
    "deberta-v2": "unigram",
    "xlm-roberta": "unigram",
    "jina_embeddings_v3": "unigram",
}
TEXTS = (
    "The film was a delight from the first scene to the last.",
    "Nobody in New Zealand knew who had painted the café in 1995!",
    "It is a dull, slow and needlessly long story (2 hours).",
)


@lru_cache
def tokenizer_of(family: str, texts: tuple[str, ...] = TEXTS, size: int = 300) -> Any:
    """Return WordPiece without case, byte-level BPE with case, or Unigram, learnt from texts.

    Cached, because the trainer of Unigram breaks ties at random.
    """
    kind = _TOKENIZERS.get(family, "wordpiece")
    if kind == "wordpiece":
        return train_wordpiece(list(texts), vocab_size=size)
    if kind == "bpe":
        made = byte_pairs(texts, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], size + 256)
        merges = json.loads(made.to_str())["model"]["merges"]
        return RobertaTokenizerFast(
            vocab=made.get_vocab(), merges=[tuple(merge) for merge in merges]
        )
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.train_from_iterator(
        texts, trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="[UNK]")
    )
    vocabulary = [tuple(entry) for entry in json.loads(made.to_str())["model"]["vocab"]]
    return DebertaV2TokenizerFast(vocab=vocabulary, unk_id=special.index("[UNK]"))


def byte_pairs(texts: Sequence[str], special: list[str], size: int) -> Tokenizer:
    """Return byte-level BPE with case, learnt from texts."""
    made, level = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel
    made.pre_tokenizer = level(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=level.alphabet()
    )
    made.train_from_iterator(texts, trainer)
    return made


def config_of(family: str, layers: int = 2, **options: Any) -> Any:
    """Return the configuration of a tiny model."""
    count = {"n_layers" if family == "distilbert" else "num_hidden_layers": layers}
    size = {"max_position_embeddings": _POSITIONS} | _SIZES.get(family, _WIDTH) | count | options
    return CONFIG_MAPPING[family](**size)


def publish(
    directory: Path,
    family: str,
    head: str = "",
    *,
    labels: Sequence[str] = (),
    layers: int = 2,
    tokenizer: Any = None,
    seed: int = 0,
    **options: Any,
) -> Path:
    """Save a model with random weights and its tokenizer; ``head`` is the end of an Auto class,
    such as ``ForSequenceClassification``, or empty for the encoder alone.
    """
    tokenizer = tokenizer or tokenizer_of(family)
    names = {"id2label": dict(enumerate(labels))} if labels else {}
    tokens = {
        f"{role}_token_id": getattr(tokenizer, f"{role}_token_id")
        for role in ("pad", "bos", "eos", "cls", "sep")
    }
    config = config_of(family, layers, vocab_size=len(tokenizer), **options, **names, **tokens)
    torch.manual_seed(seed)
    model = getattr(transformers, f"AutoModel{head}").from_config(config)
    with torch.no_grad():  # weights large enough that answers differ
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.eval().save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def load_multitask(directory: str, tasks: Sequence[Task]) -> MultitaskModel:
    """The encoder of a model directory with a new head for every task, and the stored pooler."""
    model = MultitaskModel(load_encoder(directory), tasks)
    keep_pooler(model, directory)
    return model
