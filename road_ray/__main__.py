"""``python -m road_ray`` is ``road``."""

from road_ray.cli import main

if __name__ == "__main__":
    main()
