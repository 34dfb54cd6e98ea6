"""Configuration of data: the location of data sets and corpora, and the rows made of them.

``SourceConfig`` is the base of the section ``data`` of verbs that read data sets;
``data/load_split.py`` consumes it. ``CorpusConfig`` is ``data`` of ``road pretrain``;
``data/corpus/prepare_corpus.py`` consumes it.
"""

from os.path import expanduser
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from road_ray.config import Config
from road_ray.config.base import ByContent, Free, beside_file
from road_ray.data.readers.custom_dataset import CustomDataset, SetName

MINIATURE = "miniature"
"""Value of ``data.root`` that names the embedded data set."""


HUB = "hub"
"""Value of ``data.root`` that names the Hugging Face hub."""


Pooling = Literal["none", "mean", "max"]
"""What joins the logits of a text's windows; ``none``: a text is one row, and truncated."""


class SourceConfig(Config):
    """Location of the data sets, length of their rows, kind of the heads and number of examples."""

    root: Annotated[str | None, ByContent()] = None
    """Directory of the data sets in their published layouts, ``miniature`` (the embedded data set)
    or ``hub`` (the Hugging Face hub). None: the environment variable ``ROAD_DATA``, or the hub
    where it is not set."""
    max_length_tokens: int | None = Field(None, ge=8)
    """Maximum length of a row, in tokens; longer texts are truncated or read in windows
    (``data.windows``), longer contexts are split into windows. None: 384 for span tasks and 128 for
    all others, as for BERT; ``road evaluate`` takes the length of the training. ELECTRA uses 512
    for span tasks."""
    stride_tokens: int | None = Field(None, ge=1)
    """Distance between the starts of successive windows, in tokens (BERT's ``doc_stride``). None:
    128 for contexts of a span task, as google-research/electra, and for ``data.windows`` the length
    of a window, so that they do not overlap; ``road evaluate`` takes that of the training."""
    windows: Pooling | None = None
    """Reading of texts that are longer than ``data.max_length_tokens``, of tasks with one text and
    classes, several labels or a number. ``none``: they are truncated. ``mean``, ``max``: they are
    split into windows. Each window is trained on with the label of its text (Pappagari et al.
    2019); predictions and metrics are of the mean or the maximum of the windows' logits. None:
    ``none``; ``road evaluate`` takes that of the training."""
    span_head: Literal["independent", "joint"] = "independent"
    """Head for answer spans. ``independent``: start and end are predicted independently, position 0
    means no answer (ROaD). ``joint``: the end is predicted given the start, and a classifier
    decides whether there is an answer (ELECTRA). Plain transformers cannot load ``joint``, and such
    a model cannot be a teacher."""
    pair_head: Literal["first_token", "answer_network"] = "first_token"
    """Head for sentence pairs. ``first_token``: a linear classifier of the first token (ELECTRA).
    ``answer_network``: the stochastic answer network of MT-DNN. Plain transformers cannot load
    ``answer_network``, and such a model cannot be a teacher."""
    sets: dict[SetName, CustomDataset] = Field({})
    """The user's own data sets by name, beside those of the catalogue; each is an entry with files,
    columns and labels. A name has letters, digits, ``.``, ``_`` and ``-``; one of
    the catalogue is not allowed."""
    max_rows: int | None = Field(None, ge=1)
    """Number of training examples to use, drawn by a shuffle that is the same for all seeds. None:
    all. Set it for quick experiments and learning curves."""
    max_unlabelled_rows: int | None = Field(None, ge=1)
    """Number of rows of ``data.unlabelled=rest`` to use. None: all."""
    label_noise: float = Field(0.0, ge=0, lt=1)
    """Fraction of training labels that are replaced by another class, each equally likely. 0: none.
    Set it to see what a method makes of wrong labels."""
    corrections: Annotated[Path | None, beside_file(), ByContent()] = None
    """Table that corrects training labels, as ``road data errors`` writes it. Its column
    ``correction`` has ``drop`` for rows to leave out, or the right label. None: all labels are as
    they are in the data."""
    max_judged_rows: int | None = Field(None, ge=1)
    """Number of evaluation examples to use, drawn by a shuffle that is the same for all seeds.
    None: all, as published results require."""


def _place(written: object) -> object:
    """Return a path as text, with ``~`` expanded, or an address as it is."""
    is_path = isinstance(written, str | Path) and "://" not in str(written)
    return str(Path(expanduser(written))) if is_path else written  # type: ignore[call-overload]


class CorpusConfig(Config):
    """Pre-training text, its tokenizer, the length of its rows and the batch size. Source of the
    defaults of length and batch size: ELECTRA-Small, Clark et al. 2020, table 6; others are our
    choice.
    """

    root: Annotated[str | None, ByContent()] = None
    """Directory below which ``data.corpus`` and ``data.tokenizer`` are looked up, or ``miniature``
    (the embedded data set). None: the environment variable ``ROAD_DATA``."""
    corpus: Annotated[str, beside_file()] = "wikipedia/train-00000-of-00001.parquet"
    """Text to train on: a file or directory (Parquet, Arrow, JSONL or plain text) beside the YAML
    file that names it, below ``data.root``, or a path of its own; an address such as
    ``s3://bucket/folder``, which is read file by file and never stored here; ``hub:NAME`` or
    ``hub:NAME:CONFIG`` for the training split of a hub data set. Credentials belong in the
    environment."""
    tokenizer: str | None = None
    """Tokenizer of the text: a ``vocab.txt`` below ``data.root``, a model directory or a hub name.
    None: that of ``init`` if it is given, else a WordPiece tokenizer that is trained on the corpus.
    """
    vocab_size: int = Field(8192, ge=8)
    """Number of entries of the WordPiece tokenizer that is trained on the corpus; without effect
    where ``data.tokenizer`` or ``init`` names one. Our choice for small corpora; BERT and ELECTRA
    have 30,522."""
    max_length_tokens: int = Field(128, ge=8)
    """Maximum length of a row, in tokens, special tokens included. 128 in ELECTRA-Small, 512 in
    Base and Large. At most ``encoder.max_length_tokens``."""
    batch_size: int = Field(128, ge=1)
    """Global batch size of one pass, in rows, over all workers. 128 in ELECTRA-Small, 256 in Base,
    2,048 in Large."""
    shards: Annotated[Annotated[str, BeforeValidator(_place)] | None, ByContent()] = None
    """Directory of tokenised rows and trained tokenizers. They are built once for each text,
    tokenizer and row length; runs share them. Put it on a disk that all machines see, or give an
    address such as ``s3://bucket/folder``, which is read through ``data.shard_cache``. None:
    ``corpus`` below ``ROAD_CACHE`` or ``~/.cache/road_ray``."""
    shard_cache: Free[Path | None] = None
    """Directory of local copies of shards of an address; the processes of a machine share it. None:
    ``shards`` below ``ROAD_CACHE`` or ``~/.cache/road_ray``. Without effect for shards in a
    directory."""
    shard_cache_gb: Free[float] = Field(20.0, gt=0)
    """Size of ``data.shard_cache`` at most, in GB (1e9 bytes). The least recently used shards are
    evicted. It must hold ``data.shuffled_shards`` and two more; twice as many let the next ones be
    fetched ahead. Our choice."""
    shuffled_shards: int | None = Field(None, ge=1)
    """Number of shards, of 50,000 rows each, whose rows are shuffled together. The order of shards
    is drawn again for each epoch. None: all rows of a directory, and 16 shards of an address, of
    which so many are read at a time. Our choice."""


Sampler = Literal["uniform_dataset", "uniform_task", "proportional", "size_power", "annealed"]
"""Rule by which multi-task training draws data sets, see ``mixing.sampler``."""
