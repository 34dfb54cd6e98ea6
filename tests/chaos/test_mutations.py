"""Every file of every kind of object, damaged in every way: the same result or an error that names
the file, never a traceback, never another number. `tests/chaos/page.md` has the table.
"""

import logging

import pytest

from tests.chaos.damage import REFUSED, SAME, counted, tried
from tests.chaos.subjects import SUBJECTS, Workshop


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_damaged_file_changes_no_result_and_is_named(
    name, workshop, monkeypatch, record_property, caplog
):
    monkeypatch.setattr("road_ray.data.load_split.LEAST_EXAMPLES", 1)
    caplog.set_level(logging.CRITICAL)
    outcomes = list(tried(workshop.subject(name)))
    for damage, values in counted(outcomes).items():
        record_property(f"{name}: {damage}", values)
    wrong = [outcome for outcome in outcomes if outcome.verdict not in (SAME, REFUSED)]
    assert not wrong, f"{len(wrong)} of {len(outcomes)} are wrong:\n" + "\n".join(map(str, wrong))
