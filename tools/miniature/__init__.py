"""Generator of the miniature world, the data set that road_ray ships.

``python -m tools.miniature`` writes ``road_ray/data/miniature/world.tar.xz`` again. Increase
``VERSION`` there with every change of its content. ``files.write`` writes the world to a directory;
tests use it for smaller worlds.
"""

from tools.miniature.files import write

__all__ = ["write"]
