"""Upload of a finished model to a repository of the Hugging Face hub.

``model_files`` lists the files of the model; ``push`` sends them in one commit. The module does not
import torch.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from road_ray.config.secrets import redact
from road_ray.data.model_files import MODEL_RECORD, check_hashes
from road_ray.errors import CheckpointError, ConfigError, ResourceError
from road_ray.system.files import read_json, without_places

_WEIGHTS = (".safetensors", ".onnx", ".onnx.data", ".model", ".spm")
_OF_MODEL = re.compile(
    r"(generator/|heads/[^/]+/)?("
    r"README\.md|road_ray\.json|(generation_|preprocessor_)?config\.json"
    r"|model(-\d+-of-\d+)?\.safetensors|model\.safetensors\.index\.json"
    r"|model(_int8)?\.onnx(\.data)?|\w+_(head|network|tagger)\.safetensors"
    r"|tokenizer(_config)?\.json|special_tokens_map\.json|added_tokens\.json"
    r"|vocab\.(txt|json)|merges\.txt|chat_template\.jinja"
    r"|(sentencepiece(\.bpe)?|spiece|spm|tokenizer)\.model)"
)
_SECRET = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY"
    r"|\"[^\"\n]*(secret|passw(or)?d|passphrase|credential|(api|access|private|ssh)[_-]?key"
    r"|authorization)[^\"\n]*\"\s*:\s*\"[^\"]{6}"
    r"|\"((hf|hub|auth|access|bearer)[_-]?)?token\"\s*:\s*\"[^\"]{6}",
    re.IGNORECASE,
)
_OF_ROWS = {"data", "columns", "id_column", "label_thresholds"}  # names, no paths


def model_files(model: str | Path) -> tuple[dict[str, Path], list[str]]:
    """Return the files of a run's ``hf/`` or of a model directory that are uploaded, by their
    names: weights, configuration, tokenizer, model card and record, and those of ``generator/`` and
    ``heads/``; and the names of the others, hidden ones apart.

    Raises ``CheckpointError`` for a directory without a model, a damaged one, and a link out of it;
    ``ConfigError`` for a text with a secret.
    """
    place = Path(model).expanduser()
    directory = place / "hf" if (place / "hf").is_dir() else place
    if not (directory / "config.json").is_file():
        raise CheckpointError(
            f"{model}: no model: no config.json there or in hf/\n"
            "  fix: name a finished run or a model directory\n  nothing was sent"
        )
    for part in {directory, *(path.parent for path in directory.rglob("config.json"))}:
        for weights in (True, False):
            check_hashes(part, weights=weights)
    files, left_out = dict[str, Path](), list[str]()
    for path in sorted(directory.rglob("*")):
        parts = path.relative_to(directory).parts
        if not path.is_file() or any(part.startswith(".") for part in parts):
            continue
        name = "/".join(parts)
        if not _OF_MODEL.fullmatch(name):
            left_out.append(name)
            continue
        if not path.resolve().is_relative_to(directory.resolve()):
            raise CheckpointError(
                f"{path}: leads out of the model, to {path.resolve()}\n"
                "  fix: copy the file here, or remove the link\n  nothing was sent"
            )
        # A text of any size: a secret of the environment, a private key, a token of a known shape,
        # or a text under a key such as ``api_key``.
        content = "" if name.endswith(_WEIGHTS) else path.read_text("utf-8", errors="replace")
        given: Mapping[str, object] = {"text": content}
        if _SECRET.search(content) or redact(given) != given:
            raise ConfigError(
                f"{path}: has what looks like a secret\n  fix: remove it from the file; then "
                "push again\n  nothing was sent"
            )
        files[name] = path
    return files, left_out


def push(model: str | Path, files: Mapping[str, Path], repository: str, *, public: bool) -> str:
    """Send ``files`` of a model in one commit to a repository, private unless ``public``, and
    return its address. A missing repository is created; the history of an existing one keeps what
    it had.

    Raises ``ConfigError`` if it is public, unless ``public``; ``ResourceError`` without a token or
    network.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of its client

    if not (token := get_token()):
        fix = "`hf auth login`, or HF_TOKEN in the environment, with a token that may write"
        raise ResourceError(f"no token of the hub\n  fix: {fix}\n  nothing was sent")
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)
    try:
        api.create_repo(repository, private=not public, exist_ok=True)
        if not public and api.model_info(repository).private is False:
            raise ConfigError(
                f"{repository} is public\n  fix: --public to publish the model there, or name "
                "another repository\n  nothing was sent"
            )
        added = [CommitOperationAdd(name, _published(path)) for name, path in files.items()]
        api.create_commit(repository, added, commit_message="Model by road_ray")
    except (OSError, HTTPError) as error:  # refused, offline, or without a network
        raise ResourceError(
            f"{api.endpoint}: {repository} cannot be written: {str(error).splitlines()[0]}\n"
            "  fix: check the network, HF_HUB_OFFLINE, the name of the owner and that the token "
            "may write there\n"
            "  kept: the repository as it was; files arrive in one commit or not at all"
        ) from error
    return f"{api.endpoint}/{repository}"


def _published(path: Path) -> Path | bytes:
    """Return a file as it is sent: a record of a model without paths of this machine."""
    if path.name != MODEL_RECORD:
        return path
    record = read_json(path)
    kept = {name: record[name] for name in _OF_ROWS & record.keys()}
    return json.dumps(without_places(record) | kept, indent=2).encode()


def check_repository(name: str) -> None:
    """Raise ``ConfigError`` for a name that is not ``OWNER/NAME``."""
    if not re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", name):
        raise ConfigError(
            f"{name}: is not OWNER/NAME of a repository\n"
            "  allowed: letters, digits, dots, dashes, at most 96 characters each"
        )
