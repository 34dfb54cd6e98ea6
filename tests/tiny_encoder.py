"""Tiny ELECTRAs: any, and one with a head for every task of the catalogue and a tokenizer of its
world.
"""

import torch

from road_ray.models.config import EncoderConfig

TINY = EncoderConfig(
    layers=2, hidden_size=32, heads=2, intermediate_size=64, embedding_size=16, max_length_tokens=16
)


def size_of(family, **changes):
    """``TINY`` in another family: BERT has one width for embeddings and states."""
    width = {"embedding_size": 32} if family == "bert" else {}
    return TINY.model_copy(update={"family": family} | width | changes)


def small_config(**changes):
    """That of a tiny encoder over a vocabulary of sixty."""
    from transformers import ElectraConfig

    size = {"vocab_size": 60, "embedding_size": 16, "hidden_size": 32, "intermediate_size": 32}
    size |= {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 24}
    return ElectraConfig(**(size | changes))


def padded_batch(*lengths):
    """Inputs with rows of these lengths, whose sixth token begins the second segment."""
    places = torch.arange(max(lengths))
    mask = (places < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, 50, mask.shape, generator=torch.Generator().manual_seed(0))
    segments = (places >= 5).long()
    return {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": segments * mask}


def model_of_all_tasks(tokenizer):
    from transformers import ElectraModel

    from road_ray.data.catalog import TASKS
    from road_ray.models.multitask import MultitaskModel

    torch.manual_seed(0)
    size = {"vocab_size": len(tokenizer), "num_hidden_layers": 1, "max_position_embeddings": 512}
    return MultitaskModel(ElectraModel(small_config(**size)), list(TASKS.values()))
