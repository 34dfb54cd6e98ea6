"""``road data``: shows data, trains tokenizers, builds corpora, finds label errors."""

import csv
import os
import shutil
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from road_ray.cli.options import AddressOption, JsonOption, argument, show_list, tell
from road_ray.config import load
from road_ray.errors import ConfigError, DataError, ResourceError, shorten
from road_ray.reporting.text_tables import aligned
from road_ray.verbs import configure, verb_of_file

data_app = typer.Typer(
    help="Look at data, find wrong labels, train a tokenizer, build corpora.", no_args_is_help=True
)
store_app = typer.Typer(help="List, verify and remove answers of teachers.", no_args_is_help=True)
data_app.add_typer(store_app, name="store")


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
        argument(
            "NAME|CONFIG.yaml|RUN [key=value]...",
            "data set of the catalogue, YAML file, or pre-training run; then overrides",
        ),
    ],
    tokenizer: Annotated[
        str, typer.Option(help="vocab.txt or model directory; shows rows of tokens")
    ] = "",
    split: Annotated[Literal["train", "dev", "test"], typer.Option()] = "train",
    rows: Annotated[int, typer.Option(min=1)] = 3,
) -> None:
    """Show examples of data sets, rows of tokens as the model sees them, or masks of pre-training.

    data.root of a NAME is by default $ROAD_DATA, else miniature.
    """
    from road_ray.recipes.run_directory.recorded_config import RECORD

    place, *overrides = arguments
    record = Path(place) / RECORD
    if record.is_file() and verb_of_file(record) == "pretrain":
        from road_ray.recipes.pretraining.preview import peek

        typer.echo(peek(place, rows))
        return
    if Path(place).suffix in (".yaml", ".yml"):
        config: Any = configure(verb_of_file(Path(place)), path=Path(place), overrides=overrides)
    else:
        from road_ray.recipes.train.config import FinetuneConfig

        place_of_data = None if os.environ.get("ROAD_DATA") else "miniature"
        base = {"data": {"root": place_of_data, "dataset": place}}
        config = load(FinetuneConfig, base=base, overrides=overrides)
    if hasattr(config.data, "corpus"):  # the beginnings of its first documents
        from road_ray.data.corpus.documents import Documents
        from road_ray.data.corpus.prepare_corpus import corpus_text

        texts = [shorten(text, 300) for text in islice(Documents(corpus_text(config.data)), rows)]
        typer.echo("\n\n".join([f"{config.data.corpus}:", *texts]))
        return
    names = getattr(config.data, "datasets", None) or [config.data.dataset]
    if names == [""]:  # an experiment scores its arms on targets
        names = list(config.targets or config.experiment.targets)
    chosen = tokenizer or (config.init if Path(config.init).is_dir() and config.init else "")
    from road_ray.data.inspection.split_preview import format_examples, format_rows

    shown = [
        format_rows(name, split, config.data, chosen, rows)
        if chosen
        else format_examples(name, split, config.data, rows)
        for name in dict.fromkeys([*names, *config.data.sets])
    ]
    typer.echo("\n\n".join(shown))


@data_app.command("tokenizer")
def data_tokenizer(
    corpus: Annotated[str, typer.Argument(help="file, directory or address of text")],
    out: Annotated[Path, typer.Argument(help="directory for the tokenizer")],
    vocab_size: Annotated[int, typer.Option(min=8, help="number of entries")] = 8192,
    cased: Annotated[
        bool, typer.Option("--cased", help="keep capital letters and accents")
    ] = False,
) -> None:
    """Train a WordPiece tokenizer on a corpus."""
    from road_ray.data.corpus.documents import Documents
    from road_ray.data.tokenizer import train_wordpiece

    trained = train_wordpiece(Documents(corpus), vocab_size=vocab_size, lowercase=not cased)
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
    from road_ray.distributed.batch_inference import encoding_at

    settings = CorpusConfig(corpus=corpus, tokenizer=tokenizer, shards=out)
    for length in max_length_tokens or [settings.max_length_tokens]:
        data = settings.model_copy(update={"max_length_tokens": length})
        built, _ = prepare_corpus(data, processes, encoding_at(address))
        rows, tokens = built.manifest["rows"], built.manifest["tokens"]
        typer.echo(f"at most {length} tokens: {rows:,} rows, {tokens:,} tokens: {built.directory}")
    typer.echo(
        f"next: road pretrain data.corpus={corpus} data.tokenizer={tokenizer} data.shards={out}"
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


_SHOWN = 10


@data_app.command()
def errors(
    teachers: Annotated[
        Path, argument("RUN", "run of `road teachers` with num_folds, or its teachers.json")
    ],
    output: Annotated[Path, typer.Option(help="CSV file to write")] = Path("errors.csv"),
    relabel: Annotated[
        bool, typer.Option("--relabel", help="correct suspected labels instead of dropping rows")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Rank the training rows by how much teachers of other folds contradict their label.

    The file is a value of data.corrections: its column `correction` drops the suspected rows. Look
    through it first, and clear or change what you do not agree with.
    """
    from road_ray.data.training_rows import FIELDS
    from road_ray.recipes.label_errors import label_errors
    from road_ray.system.files import check_new

    output = check_new(output)
    teachers = teachers / "teachers.json" if teachers.is_dir() else teachers
    rows = label_errors(teachers, relabel=relabel)
    with output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    suspected = sum(bool(row["correction"]) for row in rows)
    columns = ("label", "suggested", "margin", "text")
    tell(
        {"output": str(output), "rows": len(rows), "suspected": suspected},
        as_json,
        aligned([{c: str(row[c])[:60] for c in columns} for row in rows[:_SHOWN]]),
        f"{suspected:,} of {len(rows):,} labels are suspected: {output}",
        f"next: look through it, then road finetune ... data.corrections={output}",
    )


_Store = Annotated[
    Path, typer.Argument(help="directory of distillation.store, or answers/ of a run")
]
_Teachers = Annotated[
    list[str] | None, typer.Argument(help="teachers, by the beginning of their names; default: all")
]


@store_app.command("ls")
def store_ls(store: _Store, as_json: JsonOption = False) -> None:
    """List the teachers with answers: rows, size, last use."""
    from road_ray.distillation.stored_ensemble import stored_teachers

    show_list([*stored_teachers(store).values()], as_json)


@store_app.command("verify")
def store_verify(store: _Store, teachers: _Teachers = None) -> None:
    """Check every table against its sha256; exit code 3 if one is damaged."""
    from road_ray.distillation.stored_ensemble import TABLES, open_table, stored_teachers

    problems = 0
    for teacher, known in stored_teachers(store, teachers or ()).items():
        before = problems
        for path in sorted(teacher.glob(TABLES)):
            try:
                open_table(path, check=True)
            except DataError as error:
                problems += 1
                typer.echo(f"  {error}", err=True)
        typer.echo(f"{teacher.name}: {known['tables']} tables, {problems - before} damaged")
    raise typer.Exit(3 if problems else 0)


@store_app.command("prune")
def store_prune(
    store: _Store,
    teachers: _Teachers = None,
    unused_days: Annotated[
        float | None, typer.Option(min=0, help="only teachers unused for so many days")
    ] = None,
) -> None:
    """Remove the answers of teachers by name or disuse."""
    from road_ray.distillation.stored_ensemble import LOCK, stored_teachers
    from road_ray.system.operating_system import lock_exclusively

    if not teachers and unused_days is None:
        raise ConfigError("name the teachers to remove, or --unused-days DAYS")
    for teacher, known in stored_teachers(store, teachers or ()).items():
        if unused_days is None or known["unused_days"] >= unused_days:
            with (teacher / LOCK).open("a+", encoding="utf-8") as lock:
                if holder := lock_exclusively(lock):
                    raise ResourceError(
                        f"{teacher}: {holder} labels rows for it\n"
                        "  fix: wait for it, or stop it\n  kept: its answers"
                    )
                shutil.rmtree(teacher)
            typer.echo(f"removed {teacher.name}: {known['mib']:.1f} MiB")
