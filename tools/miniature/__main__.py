"""Write the archive that road_ray ships."""

import lzma
import tarfile
import tempfile
from pathlib import Path

from road_ray.data.miniature import ARCHIVE
from tools.miniature.files import write


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member


def main() -> None:
    """Generate the world and pack its files in order of their names; same world, same archive."""
    with tempfile.TemporaryDirectory() as directory:
        root = write(Path(directory) / "world")
        with tarfile.open(ARCHIVE, "w:xz", preset=9 | lzma.PRESET_EXTREME) as archive:
            for path in sorted(path for path in root.rglob("*") if path.is_file()):
                archive.add(path, path.relative_to(root).as_posix(), filter=_without_owner)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
