"""`road export`: a finished model as an ONNX directory that `road predict` and others run."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from road_ray.data.model_files import MODEL_RECORD, locate_model, model_hashes
from road_ray.errors import ConfigError, require
from road_ray.evaluation.metrics import threshold_entry
from road_ray.inference.load_model import head_directory, load
from road_ray.inference.onnx_model import ONNX, export_onnx
from road_ray.models.encoder import model_directory
from road_ray.system.files import check_new, staged_directory, write_json_atomic

_FORMS = {"pytorch": "PyTorch", "onnx_fp32": "ONNX fp32", "onnx_int8": "ONNX int8"}


def export(
    model: str, output: Path | None = None, *, head: str | None = None, quantize: str | None = None
) -> tuple[Path, dict[str, Any]]:
    """Write a model with its head as ONNX, with its tokenizer, ``road_ray.json`` and card; return
    the directory and the part of the record on the export.

    ``output`` defaults to ``onnx`` in the run or model directory (``onnx-int8`` with ``quantize``,
    and the name of the head if one is given). The directory takes its name once the logits of ONNX
    equal those of PyTorch. Raises ``ConfigError`` if it exists.
    """
    place = Path(model).expanduser()
    if output is None and not place.is_dir():
        raise ConfigError(
            f"{model}: no such directory; a model of the hub needs --output\n"
            "  fix: check the path, or add --output DIR"
        )
    target = check_new(output or place / "-".join(["onnx", *filter(None, (head, quantize))]))
    require("ONNX", "onnx", "onnx", "onnxruntime", "onnxscript")
    source = head_directory(locate_model(model_directory(model, "model")), head)
    predictor = load(model, head=head, device="cpu")
    with staged_directory(target) as staged:
        facts = export_onnx(predictor, staged, quantize)
        shutil.copyfile(source / "config.json", staged / "config.json")
        predictor.tokenizer.save_pretrained(staged)
        record = dict(predictor.record) | {
            "max_length_tokens": predictor.max_length_tokens,
            **threshold_entry(predictor.threshold),
            ONNX: facts,
            "files": model_hashes(staged),
        }
        write_json_atomic(staged / MODEL_RECORD, record)
        card = source / "README.md"
        text = card.read_text(encoding="utf-8") if card.is_file() else f"# {target.name}\n"
        (staged / "README.md").write_text(_card(text, facts), encoding="utf-8")
    return target, facts


def _card(text: str, facts: Mapping[str, Any]) -> str:
    """Return the text of the model's card with the use and the measurements of the export."""
    use = (
        "## Use\n\n```python\nimport road_ray\n\n"
        'model = road_ray.load("path/to/this/directory")\n```\n\n'
        f"`{facts['file']}` takes `input_ids`, `attention_mask` and, of models with segments, "
        "`token_type_ids` (int64) of any number of rows and tokens and returns `logits`; ONNX "
        "Runtime runs it without road_ray or PyTorch."
    )
    rows = measured_rows(facts)
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    figures = (
        f"## ONNX\n\n{table}\n\nLargest difference of a logit from PyTorch's on random rows.\n"
    )
    if facts["quantization"]:
        figures += (
            "\nThe figures of this card are those of the PyTorch model. int8 is not exact: "
            "evaluate it on your own data before you use it.\n"
        )
    without = re.sub(r"^## Use\n.*?(?=^## |^<!--|\Z)", "", text, flags=re.DOTALL | re.MULTILINE)
    front = without.replace("library_name: transformers", "library_name: onnx", 1)
    before, limits, after = front.partition("## Limits\n")
    return f"{before.rstrip()}\n\n{use}\n\n{figures}\n{limits}{after}"


def measured_rows(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return size and logit difference, a row for each form of the model."""
    rows = []
    for form, size in facts["bytes"].items():
        difference = facts["largest_logit_difference"].get(form)
        row: dict[str, Any] = {"form": _FORMS[form], "MB": f"{size / 1e6:.1f}"}
        row["logit difference"] = "" if difference is None else f"{difference:.2g}"
        rows.append(row)
    return rows
