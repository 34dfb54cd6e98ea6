"""``road data``: show data, train a tokenizer, build corpora."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from road_ray.cli.completion import complete_run
from road_ray.cli.data.errors import errors
from road_ray.cli.data.store import store_app
from road_ray.cli.options import AddressOption, JsonOption, show_list

if TYPE_CHECKING:
    from road_ray.data.config import CorpusConfig

data_app = typer.Typer(help="Look at data, train a tokenizer, build corpora.", no_args_is_help=True)
data_app.add_typer(store_app, name="store")
data_app.command()(errors)


@data_app.command("list")
def data_list(as_json: JsonOption = False) -> None:
    """List the data sets of the catalogue."""
    from road_ray.data.catalog import DATASETS

    rows = [
        {key: getattr(entry, key) for key in ("name", "task", "layout", "folder")}
        | {"metrics": ", ".join(entry.metrics)}
        for entry in DATASETS.values()
    ]
    show_list(rows, as_json)


@data_app.command("peek")
def data_peek(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME|CONFIG.yaml|RUN [key=value]...",
            help="data set of the catalogue, YAML file, or pre-training run; then overrides",
            autocompletion=complete_run,
        ),
    ],
    tokenizer: Annotated[
        str, typer.Option(help="vocab.txt or model directory; shows rows of tokens")
    ] = "",
    root: Annotated[
        str | None, typer.Option(help="data root; default for a NAME: $ROAD_DATA, else miniature")
    ] = None,
    split: Annotated[str, typer.Option(help="train, dev or test")] = "train",
    rows: Annotated[int, typer.Option(min=1)] = 3,
) -> None:
    """Show examples of data sets, rows of tokens as the model sees them, or masks of
    pre-training.
    """
    from road_ray.recipes.run_directory.recorded_config import RECORD
    from road_ray.verbs import configure, verb_of_file

    place, *overrides = arguments
    record = Path(place) / RECORD
    if record.is_file() and verb_of_file(record) == "pretrain":
        from road_ray.recipes.pretraining.masking_preview import peek

        typer.echo(peek(place, rows))
        return
    if root is not None:
        overrides.append(f"data.root={root}")
    if Path(place).suffix in (".yaml", ".yml"):
        config: Any = configure(verb_of_file(Path(place)), path=Path(place), overrides=overrides)
    else:
        from road_ray.config import load
        from road_ray.recipes.train.config import FinetuneConfig

        place_of_data = None if os.environ.get("ROAD_DATA") else "miniature"
        base = {"data": {"root": place_of_data, "dataset": place}}
        config = load(FinetuneConfig, base=base, overrides=overrides)
    if hasattr(config.data, "corpus"):
        typer.echo(_documents(config.data, rows))
        return
    names = getattr(config.data, "datasets", None) or [config.data.dataset]
    chosen = tokenizer or (config.init if Path(config.init).is_dir() and config.init else "")
    from road_ray.data.inspection.split_preview import format_examples, format_rows

    shown = [
        format_rows(name, split, config.data, _model_of(chosen), rows)
        if chosen
        else format_examples(name, split, config.data, rows)
        for name in dict.fromkeys([*names, *config.data.sets])
    ]
    typer.echo("\n\n".join(shown))


def _documents(data: CorpusConfig, rows: int) -> str:
    """Return the beginnings of the first documents of a corpus."""
    from itertools import islice

    from road_ray.data.corpus.documents import read_corpus
    from road_ray.data.corpus.prepare_corpus import corpus_text
    from road_ray.errors import shorten

    documents = islice(read_corpus(corpus_text(data)), rows)
    return "\n\n".join([f"{data.corpus}:", *(shorten(text, 300) for text in documents)])


@data_app.command("tokenizer")
def data_tokenizer(
    corpus: Annotated[str, typer.Argument(help="file, directory or address of text")],
    out: Annotated[Path, typer.Argument(help="directory for the tokenizer")],
    vocab_size: Annotated[int, typer.Option(min=8, help="number of entries")] = 8192,
    kind: Annotated[
        Literal["wordpiece", "bpe", "unigram"],
        typer.Option(help="of BERT, of RoBERTa, of DeBERTa-v3"),
    ] = "wordpiece",
    cased: Annotated[bool, typer.Option("--cased", help="keep capital letters")] = False,
) -> None:
    """Train a tokenizer on a corpus."""
    from road_ray.data.corpus.documents import Documents
    from road_ray.data.tokenizer import train_tokenizer

    trained = train_tokenizer(Documents(corpus), kind, vocab_size=vocab_size, lowercase=not cased)
    trained.save_pretrained(out)
    typer.echo(f"{len(trained)} entries: {out}")
    typer.echo(f"next: road pretrain data.corpus={corpus} data.tokenizer={out}")


@data_app.command("corpus")
def data_corpus(
    corpus: Annotated[str, typer.Argument(help="file, directory or address of text, or hub:NAME")],
    out: Annotated[
        str, typer.Argument(help="directory or address for the shards: data.shards of a run")
    ],
    tokenizer: Annotated[str, typer.Option(help="vocab.txt or model directory")],
    max_length_tokens: Annotated[
        list[int] | None, typer.Option(min=8, help="row length; repeatable; default: 128")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="number of processes; default: all cores")
    ] = None,
    address: AddressOption = None,
) -> None:
    """Build the shards of text for `road pretrain` in advance, on a cluster if there is one."""
    from road_ray.data.config import CorpusConfig
    from road_ray.data.corpus.prepare_corpus import prepare_corpus
    from road_ray.distributed.corpus_encoding import encoding_at

    settings = CorpusConfig(corpus=corpus, tokenizer=_model_of(tokenizer), shards=out)
    for length in max_length_tokens or [settings.max_length_tokens]:
        data = settings.model_copy(update={"max_length_tokens": length})
        built, _ = prepare_corpus(data, processes, encoding_at(address))
        rows, tokens = built.manifest["rows"], built.manifest["tokens"]
        typer.echo(f"at most {length} tokens: {rows:,} rows, {tokens:,} tokens: {built.directory}")
    typer.echo(
        "next: road pretrain "
        f"data.corpus={corpus} data.tokenizer={settings.tokenizer} data.shards={out}"
    )


@data_app.command("glue-zip")
def data_glue_zip(
    out: Annotated[Path, typer.Argument(help="zip file to write")],
    runs: Annotated[
        list[Path], typer.Argument(help="run directories of `road evaluate data.split=test`")
    ],
    partial: Annotated[bool, typer.Option(help="allow data sets to be missing")] = False,
) -> None:
    """Write a submission for the GLUE server from predictions on its test sets."""
    from road_ray.evaluation.glue import predictions_of, write_submission

    typer.echo(write_submission(out, predictions_of(runs), partial=partial))


def _model_of(name: str) -> str:
    """Return ``hf/`` of a run directory, or any other name unchanged."""
    return str(Path(name) / "hf") if (Path(name) / "hf").is_dir() else name
