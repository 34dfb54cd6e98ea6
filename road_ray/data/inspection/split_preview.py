"""Text preview of a split: examples as in the file, or rows of tokens, each with its label."""

from road_ray.data.config import SourceConfig
from road_ray.data.examples import UNKNOWN, ChoiceExample, Example, SpanExample, TagExample
from road_ray.data.load_split import (
    Split,
    find_dataset,
    label_counts,
    load_split,
    read_examples,
    root_of,
    training_tokenizer,
)
from road_ray.data.task_and_dataset import MultiLabel, Span, Tag
from road_ray.errors import counted, shorten

_GOLD = "  gold: "
_SHOWN = 300  # characters of a text


def format_examples(dataset: str, split: str, source: SourceConfig, rows: int) -> str:
    """Return the first examples of a split as text, and the number of each label."""
    entry, task = find_dataset(dataset, source)
    examples = read_examples(entry, split, root_of(dataset, source))
    spans = [example for example in examples if isinstance(example, SpanExample)]
    bare = sum(span.labelled and not span.answers for span in spans)
    kind = "multi" if isinstance(task.kind, MultiLabel) else "classify"
    counts = label_counts(examples, kind)
    labels = [f"{label} ({count:,})" for label, count in counts.most_common(12)]
    about = f"{bare:,} without answer" if spans else ", ".join(labels)
    lines = [f"{dataset} {split}: {len(examples):,} examples" + (f"; {about}" if about else "")]
    for example in examples[:rows]:
        lines.append("")
        for text in _shown(example):
            indent = text[: len(text) - len(text.lstrip(" "))]
            lines.append(indent + shorten(" ".join(text.split()), _SHOWN))
    return "\n".join(lines)


def _shown(example: Example) -> list[str]:
    """Return texts and gold label as lines."""
    if isinstance(example, TagExample):
        tags = example.tags or ("?",) * len(example.words)
        return [" ".join(map("/".join, zip(example.words, tags, strict=True)))]
    if isinstance(example, SpanExample):
        answers = [f"{a.text} (character {a.start})" for a in example.answers]
        gold = "; ".join(dict.fromkeys(answers)) or ("no answer" if example.labelled else "unknown")
    elif isinstance(example, ChoiceExample):
        gold = "unknown" if example.answer is None else f"choice {example.answer + 1}"
    else:
        gold = example.label or "unknown"
    return [*example.texts, f"{_GOLD}{gold}"]


def format_rows(dataset: str, split: str, source: SourceConfig, tokenizer: str, rows: int) -> str:
    """Return the first rows of a split as text, each followed by its answer or label."""
    loaded = training_tokenizer(tokenizer, [dataset], source)
    encoded = load_split(dataset, split, source, loaded)
    lengths = encoded.features.lengths
    lines = [
        f"{dataset} {split}: {counted(len(encoded.examples), 'example')}, "
        f"{counted(len(encoded.features), 'row')}, "
        f"tokens a row: mean {lengths.mean():.0f}, longest {lengths.max()}"
    ]
    choices = encoded.features.choices
    for index in range(min(rows, len(encoded.features))):
        for row in range(index * choices, (index + 1) * choices):
            tokens = loaded.convert_ids_to_tokens(encoded.features.row(row).tolist())
            lines += [*([""] if row == index * choices else []), " ".join(tokens)]
        lines.append(f"{_GOLD}{_gold(encoded, index, tokens)}")
    return "\n".join(lines)


def _gold(split: Split, index: int, tokens: list[str]) -> str:
    kind, gold = split.task.kind, split.features.gold
    if isinstance(kind, Span):
        start, end = int(gold["start_positions"][index]), int(gold["end_positions"][index])
        if start == 0:
            return "no answer in this window"
        return f"{' '.join(tokens[start : end + 1])}  (tokens {start} to {end})"
    if isinstance(kind, Tag):
        row = slice(*split.features.bounds[index : index + 2])
        pairs = zip(tokens, gold["labels"][row], strict=True)
        return " ".join(f"{token}/{kind.labels[tag]}" for token, tag in pairs if tag != UNKNOWN)
    example = split.examples[split.features.example[index]]
    return _shown(example)[-1].removeprefix(_GOLD)
