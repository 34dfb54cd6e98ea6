"""Text preview of encoded rows: tokens, segments and the label."""

from __future__ import annotations

from road_ray.data.config import SourceConfig
from road_ray.data.features.types import UNKNOWN
from road_ray.data.loading import Split, load_split
from road_ray.data.schema import Choose, Classify, Span, Tag
from road_ray.data.tokenizer import load_tokenizer


def format_rows(dataset: str, split: str, root: str, tokenizer: str, rows: int) -> str:
    """Return the first rows of a split as text, each followed by its answer or label."""
    loaded = load_tokenizer(tokenizer)
    encoded = load_split(dataset, split, SourceConfig(root=root), loaded)
    lengths = encoded.features.lengths
    head = (
        f"{dataset} {split}: {len(encoded.examples)} examples, {len(encoded.features)} rows, "
        f"tokens a row: mean {lengths.mean():.0f}, longest {lengths.max()}"
    )
    lines = [head]
    choices = encoded.features.choices
    for index in range(min(rows, len(encoded.features))):
        for row in range(index * choices, (index + 1) * choices):
            tokens = loaded.convert_ids_to_tokens(encoded.features.row(row).tolist())
            lines += [*([""] if row == index * choices else []), " ".join(tokens)]
        lines.append(f"  gold: {_gold(encoded, index, tokens)}")
    return "\n".join(lines)


def _gold(split: Split, index: int, tokens: list[str]) -> str:
    kind = split.task.kind
    gold = split.features.gold
    if isinstance(kind, Span):
        start, end = int(gold["start_positions"][index]), int(gold["end_positions"][index])
        if start == 0:
            return "no answer in this window"
        return f"{' '.join(tokens[start : end + 1])}  (tokens {start} to {end})"
    if isinstance(kind, Tag):
        row = slice(*split.features.bounds[index : index + 2])
        told = zip(tokens, gold["labels"][row], strict=True)
        return " ".join(f"{token}/{kind.labels[tag]}" for token, tag in told if tag != UNKNOWN)
    label = gold["labels"][index]
    if label == UNKNOWN:
        return "unknown"
    if isinstance(kind, Choose):
        return f"choice {label + 1} of {kind.choices}"
    return kind.labels[int(label)] if isinstance(kind, Classify) else f"{label:g}"
