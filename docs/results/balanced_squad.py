"""Questions of SQuAD 2.0, as many with an answer as without one, drawn by a seed of 0:
``python docs/results/balanced_squad.py train-v2.0.json OUTPUT 2000`` writes 2,000 of each.
"""

import json
import random
import sys
from pathlib import Path


def main() -> None:
    source, target, each = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    articles = json.loads(source.read_text("utf-8"))
    questions = [
        (question["id"], question["is_impossible"])
        for article in articles["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    draw, kept = random.Random(0), set()
    for impossible in (False, True):
        kept |= {*draw.sample([name for name, flag in questions if flag is impossible], each)}
    for article in articles["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [one for one in paragraph["qas"] if one["id"] in kept]
        article["paragraphs"] = [one for one in article["paragraphs"] if one["qas"]]
    articles["data"] = [article for article in articles["data"] if article["paragraphs"]]
    target.write_text(json.dumps(articles), encoding="utf-8")


if __name__ == "__main__":
    main()
