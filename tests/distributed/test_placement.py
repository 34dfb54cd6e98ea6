"""Counting places by hand; that a cluster refuses at once is shown in ``teachers/test_pool.py``."""

import pytest

from road_ray.distributed.placement import core_share, fitting

NODE = {"CPU": 4.0, "GPU": 1.0, "memory": 1e9}


@pytest.mark.parametrize(
    ("requested", "places"),
    [
        ({"CPU": 1.0}, 4),
        ({"CPU": 3.0}, 1),
        ({"CPU": 0.4}, 10),
        ({"CPU": 5.0}, 0),
        ({"CPU": 1.0, "GPU": 0.5}, 2),
        ({"CPU": 1.0, "moon": 1.0}, 0),
        ({}, 7),
    ],
)
def test_the_scarcest_resource_decides(requested, places):
    assert fitting(NODE, requested, most=7) == places


@pytest.mark.parametrize(
    ("amount", "places"), [(0.4, 4), (0.1, 20), (0.75, 2), (1.0, 2), (2.0, 1), (3.0, 0)]
)
def test_fitting_counts_fractions_per_gpu(amount, places):
    assert fitting({"CPU": 8.0, "GPU": 2.0}, {"GPU": amount}, most=99) == places


def test_ten_tenths_fit_into_one():
    assert fitting({"CPU": 1.0}, {"CPU": 0.1}, most=99) == 10


@pytest.mark.parametrize(
    ("total", "beside", "share"),
    [(8, 0, 1.0), (2, 0, 0.33), (8, 6, 0.66), (4, 2, 0.66), (2, 2, 0.0), (2, 4, 0.0)],
)
def test_three_teachers_leave_half_the_cores_and_one_for_every_worker(total, beside, share):
    assert core_share(total, 3, beside) == share
    assert total - 3 * share >= min(beside, total)
