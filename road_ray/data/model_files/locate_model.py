"""Model directories: locate them, here or on the hub, and check the sha256 of their files."""

from __future__ import annotations

from pathlib import Path

from road_ray.errors import CheckpointError, shorten
from road_ray.system.files import read_json, sha256_of

MODEL_RECORD = "road_ray.json"
_EDITABLE = {MODEL_RECORD, "config.json", "generation_config.json"}  # by hand: not recorded
_RECORDED = (".json", ".safetensors", ".txt", ".model", ".onnx", ".onnx.data")
_TEXTS = ("*.json", "*.txt", "*.model")
# ONNX by the names of `road export`: many repositories have further copies of it in onnx/.
_WEIGHTS = ("*.safetensors", "model.onnx", "model.onnx.data", "model_int8.onnx")


def locate_model(name: str | Path, *, weights: bool = True) -> Path:
    """Return the local directory of a model directory, a run directory (its ``hf/``) or a hub name.

    From the hub only files without code are downloaded.
    """
    directory = Path(name)
    if directory.is_dir():
        return directory / "hf" if (directory / "hf" / "config.json").is_file() else directory
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HFValidationError

    patterns = [*_TEXTS, *(_WEIGHTS if weights else ())]
    try:
        return Path(snapshot_download(str(name), allow_patterns=patterns))
    except Exception as error:  # the hub's client raises dozens of types
        problem, remedy = "no such directory, and no model of the hub that can be reached", ""
        if not isinstance(error, HFValidationError):  # else it is no name of the hub
            remedy = ", or the connection to the hub"
            problem += f"\n  seen: {str(error).splitlines()[0].removeprefix('Got: ')}"
            if constants.HF_HUB_OFFLINE:
                problem = "no such directory; the hub was not asked: HF_HUB_OFFLINE=1"
                remedy = ", or unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE"
        wanted = "config.json and model.safetensors" if weights else "a model or a tokenizer"
        raise CheckpointError(
            f"{name}: {problem}\n"
            f"  allowed: a directory with {wanted}, a run directory, or "
            f"ORGANISATION/NAME of the hub\n  fix: check the path{remedy}"
        ) from error


def model_hashes(directory: Path) -> dict[str, str]:
    """Return the sha256 of each weights and tokenizer file of a model and of its ``generator/``."""
    paths = [path for pattern in ("*", "generator/*") for path in directory.glob(pattern)]
    return {
        path.relative_to(directory).as_posix(): sha256_of(path)
        for path in sorted(paths)
        if path.name.endswith(_RECORDED) and path.name not in _EDITABLE
    }


def check_hashes(directory: Path, *, weights: bool) -> None:
    """Raise ``CheckpointError`` if a weights file (``weights``), or else a tokenizer file, differs
    from its sha256 in ``files`` of ``road_ray.json``.

    Models of other programs and of older versions have no such entries and are not checked.
    ``config.json`` is not recorded, because users may edit its ``id2label``.
    """
    places = (directory, directory.parent)  # a generator is recorded with the model above it
    record = next((p / MODEL_RECORD for p in places if (p / MODEL_RECORD).is_file()), None)
    if record is None:
        return
    files = read_json(record).get("files", {})
    if not isinstance(files, dict):
        raise CheckpointError(
            f"{record}: files is {shorten(repr(files))}\n  allowed: a sha256 by file name"
        )
    for name, digest in files.items():
        path = record.parent / name
        if path.parent != directory or (path.suffix == ".safetensors") != weights:
            continue
        try:
            problem = "" if sha256_of(path) == digest else "its sha256 differs"
        except OSError as error:
            problem = f"it cannot be read ({error.strerror})"
        if problem:
            raise CheckpointError(
                f"{path}: not the file that {record} records: {problem}\n"
                f"  fix: restore it; to accept a deliberate change, delete {name!r} below `files` "
                f"in {record}"
            )
