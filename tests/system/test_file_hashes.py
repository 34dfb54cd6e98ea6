"""Damage of every kind is told by the name of the file."""

from __future__ import annotations

from road_ray.system.file_hashes import hashes_of, problems_of, sha256_of


def test_problems_of_tells_what_is_wrong_with_each_file(tmp_path):
    names = ["whole", "cut", "flipped", "gone", "folder"]
    for name in names:
        (tmp_path / name).write_text("abc")
    files = hashes_of(tmp_path, [tmp_path / name for name in names])
    assert files["whole"] == {"bytes": 3, "sha256": sha256_of(tmp_path / "whole")}
    assert problems_of(tmp_path, files) == []
    (tmp_path / "cut").write_text("ab")
    (tmp_path / "flipped").write_text("abd")
    for name in ("gone", "folder"):
        (tmp_path / name).unlink()
    (tmp_path / "folder").mkdir()
    assert problems_of(tmp_path, files)[:3] == [
        "cut has 2 bytes, 3 were written",
        "flipped has the right size but other content (sha256 differs)",
        "gone is missing",
    ]
    assert len(problems_of(tmp_path, files)) == 4
