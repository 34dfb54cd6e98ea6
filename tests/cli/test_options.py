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
