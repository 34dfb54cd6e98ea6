"""Write the miniature world in the published layouts of its data sets."""

import csv
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from road_ray.data.miniature import VERSION
from tools.miniature import corpus, opinions, pairs, questions
from tools.miniature import world as worlds
from tools.miniature.world import Entity, World


@dataclass(frozen=True)
class _Plan:
    """The world and who of it is asked about where; train and dev share no subject."""

    world: World
    train: list[Entity]
    dev: list[Entity]
    seed: int
    size: float

    def rng(self, purpose: str) -> random.Random:
        return random.Random(f"miniature {VERSION} {self.seed} {purpose}")

    def rows(self, count: int) -> int:
        return max(12, round(count * self.size))


def write(root: Path, *, seed: int = 0, size: float = 1.0) -> Path:
    """Write the world below ``root`` and return ``root``; same seed and size, same bytes."""
    root.mkdir(parents=True, exist_ok=True)
    plan = _plan(seed, size)
    _wikipedia(root / "wikipedia", plan)
    _sentiment(root / "glue" / "SST-2", plan)
    _paraphrase(root / "glue" / "QQP", plan)
    _inference(root / "glue" / "MNLI", plan)
    _entailment(root / "glue" / "RTE", plan)
    _squad(root / "squad", plan)
    _newsqa(root / "newsqa", plan)
    return root


def _plan(seed: int, size: float) -> _Plan:
    rng = random.Random(f"miniature {VERSION} {seed} world")
    world = worlds.build(rng, size=size, taken=set())
    train: list[Entity] = []
    dev: list[Entity] = []
    for entity in world.entities:
        (dev if rng.random() < 0.16 else train).append(entity)
    return _Plan(world, train, dev, seed, size)


def _wikipedia(folder: Path, plan: _Plan) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    hidden = set(plan.dev[::4])
    held = [entity for entity in plan.world.entities if entity in hidden]
    seen = [entity for entity in plan.world.entities if entity not in hidden]
    for split, entities, first in (("train", seen, 1), ("validation", held, 1 + len(seen))):
        rng = plan.rng(f"wikipedia {split}")
        rng.shuffle(entities)
        rows = corpus.articles(plan.world, entities, rng, first_id=first)
        columns = {name: [row[name] for row in rows] for name in ("id", "url", "title", "text")}
        pq.write_table(pa.table(columns), folder / f"{split}-00000-of-00001.parquet")


def _sentiment(folder: Path, plan: _Plan) -> None:
    rng, seen = plan.rng("SST-2"), set[str]()
    for split, count in (("train", 3000), ("dev", 500)):
        rows = opinions.rows(rng, count=plan.rows(count), seen=seen)
        _tsv(
            folder / f"{split}.tsv", ("sentence", "label"), ((text, label) for text, label in rows)
        )
    test = opinions.rows(rng, count=plan.rows(500), seen=seen)
    _tsv(
        folder / "test.tsv", ("index", "sentence"), ((i, text) for i, (text, _) in enumerate(test))
    )


def _paraphrase(folder: Path, plan: _Plan) -> None:
    seen: set[tuple[str, str]] = set()
    header = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    for split, subjects, count in (("train", plan.train, 3000), ("dev", plan.dev, 500)):
        rng = plan.rng(f"QQP {split}")
        rows = pairs.paraphrases(plan.world, subjects, rng, count=plan.rows(count), seen=seen)
        _tsv(
            folder / f"{split}.tsv",
            header,
            ((i, 2 * i, 2 * i + 1, *row) for i, row in enumerate(rows)),
        )


def _inference(folder: Path, plan: _Plan) -> None:
    seen: set[tuple[str, str]] = set()
    header = ("index", "sentence1", "sentence2", "gold_label")
    for split, subjects, count in (("train", plan.train, 3000), ("dev_matched", plan.dev, 500)):
        rng = plan.rng(f"MNLI {split}")
        rows = pairs.inference(plan.world, subjects, rng, count=plan.rows(count), seen=seen)
        _tsv(folder / f"{split}.tsv", header, ((i, *row) for i, row in enumerate(rows)))


def _entailment(folder: Path, plan: _Plan) -> None:
    seen: set[tuple[str, str]] = set()
    turns = ("entailment", "contradiction", "entailment", "neutral")
    for split, subjects, count in (
        ("train", plan.train, 800),
        ("dev", plan.dev, 200),
        ("test", plan.dev, 200),
    ):
        found = pairs.inference(
            plan.world,
            subjects,
            plan.rng(f"RTE {split}"),
            count=plan.rows(count),
            seen=seen,
            labels=turns,
            length=3,
        )
        rows = [
            (a, b, "entailment" if label == "entailment" else "not_entailment")
            for a, b, label in found
        ]
        header = ("index", "sentence1", "sentence2", "label")[: 3 if split == "test" else 4]
        _tsv(
            folder / f"{split}.tsv",
            header,
            ((i, *row)[: len(header)] for i, row in enumerate(rows)),
        )


def _squad(folder: Path, plan: _Plan) -> None:
    for split, subjects, count, golds in (
        ("train", plan.train, 2500, 1),
        ("dev", plan.dev, 500, 3),
    ):
        rng = plan.rng(f"squad {split}")
        data = questions.squad(plan.world, subjects, rng, count=plan.rows(count), golds=golds)
        _json(folder / f"{split}-v2.0.json", {"version": "v2.0", "data": data})
        _json(folder / f"{split}-v1.1.json", {"version": "1.1", "data": questions.answerable(data)})


def _newsqa(folder: Path, plan: _Plan) -> None:
    """Another, smaller world with half of its names unknown, read about nowhere else."""
    known = plan.world.names
    taken = {name for kind in vars(known).values() for name in kind}
    world = worlds.build(plan.rng("elsewhere"), size=0.4 * plan.size, taken=taken, known=known)
    data = questions.dispatches(world, plan.rng("newsqa"), count=plan.rows(500))
    _json(folder / "dev.json", {"data": data, "version": "1.1"})


def _tsv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE)
        writer.writerow(header)
        writer.writerows(rows)


def _json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
