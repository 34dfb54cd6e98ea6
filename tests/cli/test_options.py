"""Lists as a table or as JSON."""

from __future__ import annotations

import json

from road_ray.cli.options import show_list


def test_a_list_is_a_table_for_people_and_json_for_programs(capsys):
    rows = [{"name": "a", "state": "ok"}, {"name": "bb", "state": "bad"}]
    show_list(rows, as_json=True)
    assert json.loads(capsys.readouterr().out) == rows
    show_list(rows, as_json=False)
    assert "bb" in capsys.readouterr().out


def test_the_help_of_serve_names_every_setting(road):
    from road_ray.distributed.serving.config import ServingConfig

    words = (
        road("serve", "--help").out.replace("-", "_").replace(",", " ").replace(".", " ").split()
    )
    left = {*ServingConfig.model_fields} - {word.strip("_") for word in words}
    assert left - {"model"} == set()


def test_the_help_of_reproduce_says_how_comparisons_are_named(road):
    assert "lists the names" in " ".join(road("reproduce", "--help").out.split())
