"""QNLI as pairwise ranking: questions with two candidates, one of which answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from road_ray.data.features.examples_and_features import ChoiceExample, TextExample
from road_ray.errors import DataError


def to_ranking(
    examples: Sequence[TextExample], right: str, where: str, *, labelled: bool
) -> list[ChoiceExample]:
    """Return questions with one sentence labelled ``right`` and one with another label.

    Questions without both are dropped. The right sentence is first and second in turn. Source: Liu
    et al. 2019 (MT-DNN), section 3, pairwise ranking.
    """
    if not labelled:
        raise DataError(
            f"{where}: ranks candidates by their labels, and this split has none\n"
            "  allowed: train or dev"
        )
    by_question: dict[str, tuple[list[TextExample], list[TextExample]]] = defaultdict(
        lambda: ([], [])
    )
    for example in examples:
        by_question[example.texts[0]][example.label != right].append(example)
    questions: list[ChoiceExample] = []
    for question, (answering, not_answering) in by_question.items():
        for good, bad in zip(answering, not_answering, strict=False):
            label = len(questions) % 2
            choices = (good.texts[1], bad.texts[1])
            questions.append(
                ChoiceExample(
                    id=good.id,
                    question=question,
                    choices=choices[::-1] if label else choices,
                    answer=label,
                    where=good.where,
                )
            )
    if not questions:
        raise DataError(f"{where}: no question has both a pair labelled {right!r} and another")
    return questions
