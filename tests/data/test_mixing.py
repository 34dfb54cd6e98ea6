"""Steps as lists of passes: consecutive batches, or drawn data sets."""

from collections import Counter
from functools import partial
from itertools import count, islice, product

import pytest
from scipy import stats

from road_ray.data.mixing import (
    draw_datasets,
    mixed,
    probabilities,
)

NAMES = ["mnli", "qqp", "squad"]


def numbered(name, number):
    """Batches of a stream, batch ``k`` of which says who it is."""
    return ({"dataset": name, "number": k} for k in count(number))


def streams():
    return {name: partial(numbered, name) for name in NAMES}


def drawn(passes, **options):
    return lambda step: draw_datasets(NAMES, passes, step=step, **options)


def test_data_sets_are_drawn_uniformly_and_independently_with_replacement():
    drawn = [tuple(draw_datasets(NAMES, 2, seed=0, step=step)) for step in range(9000)]
    counts = Counter(drawn)
    observed = [counts[pair] for pair in product(NAMES, NAMES)]
    assert sum(observed) == 9000
    assert stats.chisquare(observed).pvalue > 1e-3


def test_without_replacement_a_step_draws_different_data_sets_with_their_chances():
    options = {"seed": 0, "probabilities": [0.8, 0.1, 0.1], "replacement": False}
    drawn = [draw_datasets(NAMES, 2, step=step, **options) for step in range(300)]
    assert all(len(set(names)) == 2 for names in drawn)
    assert sum("mnli" in names for names in drawn) > 250


def test_samplers_by_hand():
    rows = {"a": 100, "b": 300, "c": 1600}
    tasks = {"a": "nli", "b": "nli", "c": "mrc"}
    assert probabilities("uniform_dataset", rows, tasks) is None
    assert probabilities("uniform_task", rows, tasks) == [0.25, 0.25, 0.5]
    assert probabilities("proportional", rows, tasks) == [0.05, 0.15, 0.8]
    root = probabilities("size_power", rows, tasks, power=0.5)
    assert root == pytest.approx([10 / 67.32, 17.32 / 67.32, 40 / 67.32], abs=1e-3)


def test_annealed_draws_go_from_the_number_of_rows_towards_uniform():
    rows, tasks = {"a": 32, "b": 1}, {"a": "nli", "b": "mrc"}
    first = probabilities("annealed", rows, tasks, fraction=0.0)
    assert first == probabilities("proportional", rows, tasks)
    last = probabilities("annealed", rows, tasks, fraction=1.0)  # 32 ** 0.2 = 2
    assert last == pytest.approx([2 / 3, 1 / 3])


def test_draws_depend_on_seed_and_step_alone():
    assert draw_datasets(NAMES, 8, seed=1, step=5) == draw_datasets(NAMES, 8, seed=1, step=5)
    assert draw_datasets(NAMES, 8, seed=1, step=5) != draw_datasets(NAMES, 8, seed=1, step=6)
    assert draw_datasets(NAMES, 8, seed=2, step=5) != draw_datasets(NAMES, 8, seed=1, step=5)


def test_every_data_set_goes_through_its_batches_in_order():
    seen = {name: [] for name in NAMES}
    for passes in islice(mixed(streams(), drawn(4, seed=0)), 50):
        assert len(passes) == 4
        for batch in passes:
            seen[batch["dataset"]].append(batch["number"])
    assert sum(map(len, seen.values())) == 200
    for numbers in seen.values():
        assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("start", [0, 1, 17, 40])
@pytest.mark.parametrize("chances", [None, [0.5, 0.25, 0.25]])
@pytest.mark.parametrize("replacement", [True, False])
def test_resuming_in_the_middle_equals_going_straight(start, chances, replacement):
    options = {"seed": 3, "probabilities": chances, "replacement": replacement}
    straight = list(islice(mixed(streams(), drawn(3, **options)), 45))
    resumed = list(islice(mixed(streams(), drawn(3, **options), start=start), 45 - start))
    assert resumed == straight[start:]
