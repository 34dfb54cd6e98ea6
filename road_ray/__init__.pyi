"""ROaD-ELECTRA on Ray. Every verb is a function: configuration in, ``Run`` out.

Made by ``make reference`` from the configuration classes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from road_ray.config import Config
from road_ray.data.task_and_dataset import Classify as Classify
from road_ray.data.task_and_dataset import MultiLabel as MultiLabel
from road_ray.data.task_and_dataset import Regress as Regress
from road_ray.data.task_and_dataset import Span as Span
from road_ray.data.task_and_dataset import Tag as Tag
from road_ray.data.task_and_dataset import Task as Task
from road_ray.distillation.annotate import model_inputs as model_inputs
from road_ray.distillation.annotate import student_loss as student_loss
from road_ray.distillation.hf_trainer import DistillationTrainer as DistillationTrainer
from road_ray.distributed.public_ensemble import Ensemble as Ensemble
from road_ray.inference.load_model import load as load
from road_ray.recipes.run_directory.run import Run as Run
from road_ray.recipes.sweep.sweep import sweep as sweep
from road_ray.training.run_context import RunContext as RunContext

__all__ = [
    "Classify",
    "DistillationTrainer",
    "Ensemble",
    "MultiLabel",
    "Regress",
    "Run",
    "RunContext",
    "Span",
    "Tag",
    "Task",
    "demo",
    "distill",
    "evaluate",
    "finetune",
    "load",
    "model_inputs",
    "multitask",
    "pretrain",
    "reproduce",
    "student_loss",
    "sweep",
    "teachers",
]

class _Tracking(TypedDict, total=False):
    wandb_project: str | Path | None
    """Weights & Biases project to log to; needs `road-ray[wandb]`. Metrics go to `wandb/` in the
    run directory, for `wandb sync`, or with `WANDB_MODE=online` in the environment to the
    server during the run. None: no logging to Weights & Biases."""
    mlflow_uri: str | Path | None
    """MLflow server or database to log to, such as `http://host:5000` or `sqlite:///mlflow.db`;
    needs `road-ray[mlflow]`. None: no logging to MLflow. Credentials belong in the
    environment."""
    group: str | Path | None
    """Weights & Biases group and MLflow experiment of the run, which are created where they do
    not exist. None: no group, and the experiment `road_ray`; for a sweep, the name of the
    sweep."""
    tensorboard: bool
    """Write TensorBoard event files to `tensorboard/` in the run directory."""
    custom: str | Path | None
    """Tracker of your own, `package.module:name`: a function of run directory, name and
    configuration (secrets masked) that returns a `Tracker`. None: no such tracker."""

class _Data(TypedDict, total=False):
    root: str | Path | None
    """Directory below which `data.corpus` and `data.tokenizer` are looked up, or `miniature`
    (the embedded data set). None: the environment variable `ROAD_DATA`."""
    corpus: str | Path
    """Text to train on: a file or directory (Parquet, Arrow, JSONL or plain text) beside the
    YAML file that names it, below `data.root`, or a path of its own; an address such as
    `s3://bucket/folder`, which is read file by file and never stored here; `hub:NAME` or
    `hub:NAME:CONFIG` for the training split of a hub data set. Credentials belong in the
    environment."""
    tokenizer: str | Path | None
    """Tokenizer of the text: a `vocab.txt` below `data.root`, a model directory or a hub name.
    None: that of `init` if it is given, else a WordPiece tokenizer that is trained on the
    corpus."""
    vocab_size: int
    """Number of entries of the WordPiece tokenizer that is trained on the corpus; without effect
    where `data.tokenizer` or `init` names one. Our choice for small corpora; BERT and ELECTRA
    have 30,522."""
    max_length_tokens: int
    """Maximum length of a row, in tokens, special tokens included. 128 in ELECTRA-Small, 512 in
    Base and Large. At most `encoder.max_length_tokens`."""
    batch_size: int
    """Global batch size of one pass, in rows, over all workers. 128 in ELECTRA-Small, 256 in
    Base, 2,048 in Large."""
    shards: str | Path | None
    """Directory of tokenised rows and trained tokenizers. They are built once for each text,
    tokenizer and row length; runs share them. Put it on a disk that all machines see, or give
    an address such as `s3://bucket/folder`, which is read through `data.shard_cache`. None:
    `corpus` below `ROAD_CACHE` or `~/.cache/road_ray`."""
    shard_cache: str | Path | None
    """Directory of local copies of shards of an address; the processes of a machine share it.
    None: `shards` below `ROAD_CACHE` or `~/.cache/road_ray`. Without effect for shards in a
    directory."""
    shard_cache_gb: float
    """Size of `data.shard_cache` at most, in GB (1e9 bytes). The least recently used shards are
    evicted. It must hold `data.shuffled_shards` and two more; twice as many let the next ones
    be fetched ahead. Our choice."""
    shuffled_shards: int | None
    """Number of shards, of 50,000 rows each, whose rows are shuffled together. The order of
    shards is drawn again for each epoch. None: all rows of a directory, and 16 shards of an
    address, of which so many are read at a time. Our choice."""

class _Encoder(TypedDict, total=False):
    attention: Literal["auto", "eager", "sdpa", "flash_attention_2", "unpadded"]
    """Attention implementation of training, under its name in transformers. `auto`: PyTorch's
    `scaled_dot_product_attention`, and on a CPU a faster one for full attention with dropout.
    `eager`: matrix products one by one. `sdpa`: PyTorch's, everywhere. `flash_attention_2`:
    the package `flash-attn`, on NVIDIA GPUs and in bf16. `unpadded`: PyTorch's row by row,
    for CPUs. The last two compute no padding; set them for long texts of different lengths.
    Models are saved without it."""
    family: Literal["electra", "bert", "albert", "init"]
    """Architecture of the encoder. `electra`: BERT with a linear map from
    `encoder.embedding_size` to `encoder.hidden_size` where they differ. `bert`: without that
    map, so both sizes must be equal. `albert`: all layers share the weights of one, which
    reduces the number of parameters but not the time of a step. `init`: family and sizes of
    the model that `init` names, such as RoBERTa or DeBERTa-v3; of `encoder` only
    `encoder.attention` is then read besides."""
    layers: int
    """Number of transformer layers. 12 in ELECTRA-Small and ELECTRA-Base, 24 in ELECTRA-Large."""
    hidden_size: int
    """Width of the hidden states, a multiple of `encoder.heads`. 256 in ELECTRA-Small, 768 in
    Base, 1024 in Large."""
    heads: int
    """Number of attention heads of each layer. Published models use heads of size 64, that is
    `encoder.hidden_size` / 64."""
    intermediate_size: int
    """Inner width of the feed-forward blocks. Published models use 4 times
    `encoder.hidden_size`."""
    embedding_size: int
    """Width of the token, position and type embeddings. 128 in ELECTRA-Small; the width of the
    hidden states in Base and Large. A linear map bridges the difference, except with
    `encoder.family` = `bert`."""
    max_length_tokens: int
    """Number of rows of the position table: the longest row that the model can read, in tokens.
    It bounds `data.max_length_tokens` of pre-training and of later fine-tuning."""
    dropout: float
    """Dropout probability of embeddings, of attention weights, of the output of every block and
    of heads. 0 suits short runs of tiny models, which underfit."""
    initializer_std: float
    """Standard deviation of the truncated normal distribution of new weight matrices. 0.02 is
    BERT's value for width 768. Narrow models start to learn earlier with about 1 /
    sqrt(`encoder.hidden_size`)."""

class _Generator(TypedDict, total=False):
    kind: Literal["model", "frozen", "uniform", "unigram"]
    """Source of the replacement tokens. `model`: a masked language model that is trained
    jointly. `frozen`: that of `generator.init`, which is not trained and shares no weights:
    the second of two stages (Clark et al. 2020, section 3.3). `uniform`: random tokens.
    `unigram`: tokens by their frequency in the corpus. The last two ignore the context and
    learn nothing."""
    scale: float
    """Size of the generator as a fraction of the main encoder: of width, inner width and number
    of heads. ELECTRA-Small and Large: 1/4, Base: 1/3. 1/4 to 1/2 works best (Clark et al.
    2020, figure 3)."""
    depth: float
    """Number of layers of the generator as a fraction of those of the main encoder. 1 in
    ELECTRA, 0.5 in TEAMS."""
    tying: Literal["none", "embeddings", "all"]
    """Weights that the generator shares with the main encoder. `none`: none. `embeddings`:
    token, position and type embeddings with their LayerNorm. `all`: the whole encoder, which
    needs equal sizes. With equal sizes the GLUE scores are 83.6, 84.3 and 84.4 (Clark et al.
    2020, section 3.2)."""
    init: str | Path
    """Masked language model of the generator's size to start from, such as the run directory of
    an `mlm` run. Empty: new weights. A trained generator gives the discriminator plausible
    replacements from the first step."""

class _Objective(TypedDict, total=False):
    name: (
        Literal[
            "electra",
            "electra_masked",
            "replace_mlm",
            "all_tokens_mlm",
            "mlm",
            "mc_bert",
            "teams",
            "adversarial",
        ]
        | str
        | Path
    )
    """Pre-training objective. `electra`: detection of replaced tokens. `electra_masked`:
    detection at chosen positions only. `replace_mlm` and `all_tokens_mlm`: the intermediate
    models of Clark et al. 2020, section 3.5. `mlm`: BERT without next-sentence prediction.
    `mc_bert`, `teams`: successors. `adversarial`: ELECTRA with a generator trained by
    reinforcement. Or a class of your own, `package.module:Class`."""
    choose_fraction: float | None
    """Fraction of real tokens that are chosen for prediction and replacement. None: 0.15. Use
    0.25 for Large, whose generator is too accurate otherwise (Clark et al. 2020, table 6)."""
    discriminator_weight: float | None
    """Weight lambda of the main encoder's loss beside the generator's. None: 50 for ELECTRA and
    its variants, because a binary loss is much smaller than one over the vocabulary; 50 for
    `mc_bert`, 5 for `teams`, 1 for `replace_mlm` and `all_tokens_mlm`."""
    options: Mapping[str, bool | int | float]
    """Further options. `mask_fraction`: fraction of the chosen tokens that are replaced by
    [MASK] for the generator, while the rest stay unchanged (0.85 as in google-
    research/electra, 1 for `mc_bert`). `temperature` of the generator's logits in sampling
    (1; Clark et al. 2020 report no gain from higher values). `disallow_correct`: never sample
    the original token (false). Others are of one objective alone. `teams`: `candidates` (5
    for each position, with the original), `selection_weight` (2) of the multi-word selection
    loss and `shared_layers` (3), the lowest layers that generator and main encoder share, of
    one width, as in official/projects/teams of tensorflow/models. `mc_bert`: `candidates`
    (10, with "none of the above"). `adversarial`: `generator_weight` (1) of the policy-
    gradient loss. Empty: these defaults."""

class _Optimizer(TypedDict, total=False):
    name: Literal["adamw", "lamb"]
    """Update rule. `adamw`: Adam with decoupled weight decay. `lamb`: Adam with a learning rate
    for each weight matrix, for batches of thousands of rows (You et al. 2020, algorithm 2)."""
    peak_lr: float
    """Peak learning rate of the heads; `optimizer.layer_decay` lowers it for the other layers.
    Pre-training: 5e-4 for ELECTRA-Small, 2e-4 for Base and Large. Fine-tuning: 3e-4 for
    Small, 1e-4 for Base, 5e-5 for Large (Clark et al. 2020, tables 6 and 7). Lower it first
    when a run diverges."""
    schedule: Literal["warmup_times_decay", "warmup_then_decay", "constant"]
    """Learning rate over the steps. `warmup_times_decay`: linear warm-up times linear decay over
    all steps, so that the rate stays below its peak (google-research/electra).
    `warmup_then_decay`: linear warm-up to the peak, then linear decay to 0. `constant`:
    linear warm-up, then the peak."""
    warmup_steps: int | float
    """Length of the warm-up, in steps, or below 1 as a fraction of all steps. 10,000 in
    ELECTRA's pre-training, 0.1 in its fine-tuning (Clark et al. 2020, table 7), 500 in ROaD's
    multi-task stage."""
    weight_decay: float
    """Decoupled weight decay coefficient, times the learning rate; biases and LayerNorm weights
    never decay. 0.01 in pre-training, 0 in ELECTRA's fine-tuning (Clark et al. 2020, tables 6
    and 7)."""
    layer_decay: float
    """Factor of the learning rate from each layer to the one below it; 1 gives all layers the
    same rate. Pre-training: 1. Fine-tuning: 0.8 for ELECTRA-Small and Base, 0.9 for Large.
    ROaD's multi-task stage: 0.75."""
    layer_decay_mode: Literal["paper", "electra_code"]
    """Exponent of `optimizer.layer_decay`. `paper`: the top layer gets the factor once.
    `electra_code`: twice, as in the released code, which probably produced the published
    results (google-research/electra, issue 51)."""
    betas: Sequence[float]
    """Decay rates of Adam's two moments. Source: Clark et al. 2020, table 6. [0.9, 0.98] suits
    short runs and MC-BERT."""
    bias_correction: bool
    """Divide Adam's moments by 1 - beta ** step, as Kingma and Ba 2015 do. False: as google-
    research/electra. True suits short runs, whose first updates are too large without it."""
    max_grad_norm: float
    """Maximum L2 norm of the gradient of all parameters together; larger gradients are scaled
    down. Source: google-research/electra. A very large number switches clipping off."""

class _Stopping(TypedDict, total=False):
    patience: int | None
    """Number of evaluations in a row without improvement after which training ends and the best
    weights are restored. None: training runs to its last step and keeps the last weights. It
    needs `training.evaluate_every_steps`."""
    metric: str | Path | None
    """Metric to compare, such as `eval/mrpc/f1`; larger is better. None: the mean over the
    evaluated data sets of the principal metric of each, such as the F1 of SQuAD 2.0."""

class _Training(TypedDict, total=False):
    steps: int | None
    """Number of optimizer updates. None: `data.epochs` decides; `road pretrain` and `road
    multitask` need a number."""
    passes: int
    """Number of batches in each step, which count as one batch of this many times
    `data.batch_size` examples: its gradient, to rounding (gradient accumulation). 1 in `road
    multitask`, which has `mixing.passes`. Raise it where a larger batch does not fit into
    memory."""
    precision: Literal["auto", "fp32", "bf16"]
    """Number format of matrix products. `fp32`: full precision, on a GPU too, where TF32 stays
    off as PyTorch has it. `bf16`: autocast to bfloat16. `auto`: bf16 where the device is
    faster with it. Weights and optimizer state stay in fp32."""
    activation_checkpointing: bool
    """Recompute the activations of each layer in the backward pass instead of storing them: less
    memory, about a third more time, the same gradients (Chen et al. 2016). Set it where a
    batch does not fit."""
    torch_compile: bool
    """Compile the encoders with `torch.compile`. Worth it on GPUs only: on a CPU, compilation
    took three minutes and steps became slower. Parts that cannot be compiled run uncompiled."""
    fsdp: bool
    """Shard parameters, gradients and optimizer state over the workers (FSDP2), for models that
    one device cannot hold; it costs half as much communication again. False: every worker
    holds a full copy (DDP)."""
    log_every_steps: int | None
    """Number of steps between two rows of `metrics.jsonl`. None: 50, or a twentieth of a
    training of less than 1,000 steps, so that its curves have points. Our choice."""
    evaluate_every_steps: int | None
    """Number of steps between two evaluations. None: at the end only. `training.early_stopping`
    and the schedulers of sweeps need intermediate evaluations. `road pretrain` evaluates
    nothing."""
    early_stopping: _Stopping
    """Condition that ends the training before its last step. By default there is none."""
    save_every_steps: int
    """Number of steps between two checkpoints: the work that a crash can lose. The last step is
    always saved. Our choice."""
    keep_checkpoints: int
    """Number of newest checkpoints to keep; older ones are deleted. With 2, a run survives
    damage to the newest one. Our choice."""
    keep_checkpoints_at_end: int | None
    """Number of newest checkpoints to keep once the run has finished and its model is in `hf/`.
    They hold the optimizer too and take about four times the space of the model. None: 1 for
    `road pretrain`, which `road data peek` reads and which took longest to compute, else 0. A
    run that was stopped or failed keeps all."""
    mirror: str | Path | None
    """Address of a second copy of the checkpoints: `s3://bucket/run`, `gs://bucket/run` or a
    path. A run directory without checkpoints is restored from it. Nested runs use sub-
    directories. None: no copy. Credentials belong in the environment."""

class _Sets(TypedDict, total=False):
    kind: Literal["classify", "multi", "regress", "span", "tag", "choose"]
    """Kind of the task. `classify`: one label for a text or a pair. `multi`: any number of
    labels for a text or a pair, none too. `regress`: one number for a text or a pair. `span`:
    an answer span in a context, or none. `tag`: one label for each word. `choose`: the best
    of several answers."""
    task: str | Path | None
    """Task whose head the data set shares: one of the catalogue, such as `sentiment`, or any
    name that several sets of `data.sets` have in common. None: `mrc`, the task of SQuAD, for
    spans; else a separate task with a new head."""
    layout: (
        Literal[None, "table", "glue_tsv", "squad_json", "mrqa", "quac", "conll", "choices"]
        | str
        | Path
    )
    """Layout of the files. `table`: CSV, TSV, JSONL, a JSON array, Parquet or Arrow by suffix.
    `glue_tsv`: GLUE's TSV without quoting. `squad_json`: files of SQuAD, QuAC or MRQA, or a
    table of flat rows; `mrqa` and `quac` are other names of it. `conll`: columns, one word a
    line, or a table with lists of words and tags. `choices`: a table with one column for each
    choice. Or a reader of your own, `package.module:name`: a function from a path to its
    rows. None: `squad_json` for spans, `conll` for tags, `choices` for choices, else `table`."""
    train: str | Path | None
    """Path of the training file: beside the YAML file that names it, absolute, or below
    `data.root` (below the working directory without one). A `.gz` of that name is found too;
    a folder stands for its Parquet or Arrow files. With `hub`: the name of its split. None:
    the data set has no training split."""
    dev: str | Path | None
    """Path of the evaluation file, or split of `hub`, as for `train`. None: the data set has no
    dev split but that of `dev_fraction`."""
    test: str | Path | None
    """Path of the test file, or split of `hub`, as for `train`. Its labels may be missing; an
    empty one and a number below 0 that is no label are hidden. None: the data set has no test
    split."""
    dev_fraction: float | None
    """Fraction of the training rows that becomes the dev split, chosen by their text: the same
    for every seed, and equal texts (for spans: all questions about a context) stay together.
    Without effect where `dev` names the dev split. None: no rows of `train`."""
    hub: str | Path | None
    """Data set of the Hugging Face hub, such as `org/name`, or a folder that `datasets` loads.
    `train`, `dev` and `test` then name its splits, by default `train` and `validation`. None:
    the data set is in files."""
    configuration: str | Path | None
    """Configuration (subset) of `hub`. None: its only one."""
    revision: str | Path | None
    """Revision of `hub`: a branch, tag or commit. None: the newest. A commit makes a run
    repeatable."""
    text: Sequence[str | Path | int] | str | Path | int
    """Columns of the text, by name, or by number from 0 in a `glue_tsv` without a header; one
    needs no list. `classify`, `multi` and `regress`: one or two. `choose`: the question, then
    one column for each choice. `tag`: the column of the words, the first by default."""
    label: str | Path | int | Sequence[str | Path] | None
    """Column of the label, by name or number. `tag`: the last column by default. `choose`: the
    number of the right choice from 0, or its letter. `multi`: a column of lists, or of texts
    with a `separator`; or several columns, one a label, of 0 and 1. None: the files have no
    labels."""
    separator: str | Path | None
    """Text between the labels of a cell of `multi`, such as `;`; spaces around a label are no
    part of it. None: the cells are lists, or JSON of lists."""
    id: str | Path | int | None
    """Column of a unique identifier, which predictions repeat. None: rows are numbered from 0."""
    labels: Sequence[str | Path]
    """All labels of `classify`, `multi` and `tag`, in the order of the logits; `tag` uses the
    IOB2 scheme. Empty: those of `task`, the columns of 0 and 1, or none where the kind has no
    labels. Where they are missing, the error lists those of the file."""
    label_map: Mapping[str, str | Path]
    """Map from a value of the label column to one of `labels`, of `classify`, `multi` and `tag`.
    Empty: the file holds the labels themselves."""
    head: str | Path | None
    """Head of your own, `package.module:Class`, of `classify`, `multi` and `regress`: a
    `torch.nn.Module` built with the encoder's width and the number of labels, from states
    `[B, L, H]` and the attention mask to logits. Plain transformers loads only the encoder of
    such a model. None: that of transformers."""
    low: float
    """Smallest number of `regress`; a label below it is an error. Training computes in units of
    the range from `low` to `high`; predictions are in the labels' own numbers, not clipped."""
    high: float
    """Largest number of `regress`; a label above it is an error."""
    metrics: Sequence[str | Path] | None
    """Metrics to compute, the principal one first: `accuracy`, `f1` (of the second of two
    labels, as in GLUE), `f1_of_LABEL`, `macro_f1` (mean over labels), `matthews`, `pearson`
    or `spearman` of labels and numbers, `exact` and `f1` of spans, by SQuAD's script, or by
    MLQA's for a language (`exact_zh`, `f1_zh`; ar, de, en, es, hi, ja, th, vi, zh; figures
    keep the names `exact` and `f1`), `entity_f1`, `entity_precision` and `entity_recall` of
    tags; `micro_f1`, `macro_f1`, `samples_f1` (mean over rows), `subset_accuracy` (all labels
    of a row), `lrap` (label ranking average precision) and `f1_of_LABEL` of `multi`. Of
    `classify` and `regress` also a function of your own, `package.module:name`. None: the
    usual ones of the kind."""

class _MultitaskData(TypedDict, total=False):
    root: str | Path | None
    """Directory of the data sets in their published layouts, `miniature` (the embedded data set)
    or `hub` (the Hugging Face hub). None: the environment variable `ROAD_DATA`, or the hub
    where it is not set."""
    max_length_tokens: int | None
    """Maximum length of a row, in tokens; longer texts are truncated or read in windows
    (`data.windows`), longer contexts are split into windows. None: 384 for span tasks and 128
    for all others, as for BERT; `road evaluate` takes the length of the training. ELECTRA
    uses 512 for span tasks."""
    stride_tokens: int | None
    """Distance between the starts of successive windows, in tokens (BERT's `doc_stride`). None:
    128 for contexts of a span task, as google-research/electra, and for `data.windows` the
    length of a window, so that they do not overlap; `road evaluate` takes that of the
    training."""
    windows: Literal["none", "mean", "max"] | None
    """Reading of texts that are longer than `data.max_length_tokens`, of tasks with one text and
    classes, several labels or a number. `none`: they are truncated. `mean`, `max`: they are
    split into windows. Each window is trained on with the label of its text (Pappagari et al.
    2019); predictions and metrics are of the mean or the maximum of the windows' logits.
    None: `none`; `road evaluate` takes that of the training."""
    span_head: Literal["independent", "joint"]
    """Head for answer spans. `independent`: start and end are predicted independently, position
    0 means no answer (ROaD). `joint`: the end is predicted given the start, and a classifier
    decides whether there is an answer (ELECTRA). Plain transformers cannot load `joint`, and
    such a model cannot be a teacher."""
    pair_head: Literal["first_token", "answer_network"]
    """Head for sentence pairs. `first_token`: a linear classifier of the first token (ELECTRA).
    `answer_network`: the stochastic answer network of MT-DNN. Plain transformers cannot load
    `answer_network`, and such a model cannot be a teacher."""
    sets: Mapping[str, _Sets]
    """The user's own data sets by name, beside those of the catalogue; each is an entry with
    files, columns and labels. A name has letters, digits, `.`, `_` and `-`; one of the
    catalogue is not allowed."""
    max_rows: int | None
    """Number of training examples to use, drawn by a shuffle that is the same for all seeds.
    None: all. Set it for quick experiments and learning curves."""
    max_unlabelled_rows: int | None
    """Number of rows of `data.unlabelled=rest` to use. None: all."""
    label_noise: float
    """Fraction of training labels that are replaced by another class, each equally likely. 0:
    none. Set it to see what a method makes of wrong labels."""
    corrections: str | Path | None
    """Table that corrects training labels, as `road data errors` writes it. Its column
    `correction` has `drop` for rows to leave out, or the right label. None: all labels are as
    they are in the data."""
    max_judged_rows: int | None
    """Number of evaluation examples to use, drawn by a shuffle that is the same for all seeds.
    None: all, as published results require."""
    batch_size: int
    """Global batch size of one pass, in examples, over all workers. A step has `mixing.passes`
    times as many: ROaD's 512 = 4 * 128 (part 1, section 3.5)."""
    datasets: Sequence[str | Path]
    """Data sets of the mixture, of the catalogue or of `data.sets`, each once. The top level of
    `hf/` gets the head of the first one. ROaD mixes nine (part 1, figure 2), preset
    `road_large`."""
    unlabelled: Mapping[str, Sequence[str | Path]]
    """Files and data sets by data set of the mixture, whose rows follow its own without labels;
    the teachers of that data set alone teach them. Layouts are those of `data.unlabelled` of
    `road distill`. Empty: none."""

class _MultitaskEncoder(TypedDict, total=False):
    attention: Literal["auto", "eager", "sdpa", "flash_attention_2", "unpadded"]
    """Attention implementation of training, under its name in transformers. `auto`: PyTorch's
    `scaled_dot_product_attention`, and on a CPU a faster one for full attention with dropout.
    `eager`: matrix products one by one. `sdpa`: PyTorch's, everywhere. `flash_attention_2`:
    the package `flash-attn`, on NVIDIA GPUs and in bf16. `unpadded`: PyTorch's row by row,
    for CPUs. The last two compute no padding; set them for long texts of different lengths.
    Models are saved without it."""

class _Mixing(TypedDict, total=False):
    passes: int
    """Number of data sets that are drawn for each step; their gradients are averaged. 4 in ROaD,
    1 in MT-DNN."""
    sampler: Literal["uniform_dataset", "uniform_task", "proportional", "size_power", "annealed"]
    """Probability of a data set in each draw. `uniform_dataset`: equal (ROaD). `uniform_task`:
    equal for all tasks, then equal within one. `proportional`: by number of rows (MT-DNN).
    `size_power`: by number of rows to `mixing.power` (BAM). `annealed`: by number of rows at
    first, and ever more equal: to the power of 1 - 0.8 of the fraction of training that is
    done (Stickland and Murray 2019)."""
    power: float
    """Exponent of the number of rows with `mixing.sampler` = `size_power`. 1 is proportional;
    the smaller it is, the more uniform are the draws. Source: Clark et al. 2019 (BAM)."""
    replacement: bool
    """Draw the data sets of a step with replacement, so that one may come twice. False: they
    differ, and `mixing.passes` is at most their number."""
    heads: Literal["task", "dataset"]
    """Sharing of heads. `task`: one head for each task, shared by its data sets (ROaD).
    `dataset`: one head for each data set (MT-DNN)."""
    weights: Mapping[str, float]
    """Factor of the loss by data set or task. Empty: 1 for all, as in ROaD."""

class _Distillation(TypedDict, total=False):
    num_teachers: int | None
    """Number of teachers that each row must have, files among them, so that a forgotten one is
    an error; in a mixture of every data set, where one without teachers then needs the entry
    `[]`. None: as many as `distillation.teachers` names. ROaD distils from three."""
    kd_weight: float
    """Weight of the distillation loss, from 0 to 1; the label loss gets the rest: (1 -
    kd_weight) * CE + kd_weight * T^2 * KL. 0: labels only. 1: teachers only. ROaD does not
    print its value; 0.5 is our choice."""
    temperature: float
    """Temperature T of teacher and student logits in the distillation loss. ROaD uses more than
    3 in this stage without naming the value; 4 is our choice."""
    schedule: Literal["constant", "linear"] | Sequence[Sequence[float]]
    """Course of `distillation.kd_weight` over the training. `constant`: unchanged. `linear`:
    from 1 to 0, regardless of its value (teacher annealing, Clark et al. 2019). Or points
    [fraction of training, kd_weight], joined by straight lines."""
    average_loss: bool
    """Average the losses to each teacher, weighted by `weighting.rule`. False: one loss to the
    weighted mean of the teachers' logits, as in ROaD."""
    host: Literal["actors", "process"]
    """Place of the teachers. `actors`: Ray actors, which several workers and runs can use.
    `process`: in every training process, which needs no Ray but the memory for all teachers."""
    precision: Literal["auto", "fp32", "bf16"]
    """Number format of the teachers' matrix products. `fp32`: full precision. `bf16`: autocast
    to bfloat16, logits have 8 significant bits. `auto`: bf16 where the device is faster with
    it. Teachers of numbers compute in fp32."""
    torch_compile: bool
    """Compile the teachers with `torch.compile`, once for batches of all lengths. Meant for GPUs
    and thousands of steps, not measured on one: the first answer waits for the compiler,
    minutes on a CPU. Raise `distillation.timeout_seconds` where that takes longer. Parts that
    cannot be compiled run uncompiled."""
    label_map: Mapping[str, str | Path | Mapping[str, str | Path]]
    """Label names of the teachers' heads mapped to those of the task, such as `{LABEL_0:
    negative}`. A teacher's directory or file mapped to such names is a map for it. Empty: the
    names are equal but for case, spaces and hyphens."""
    lookahead: int
    """Number of batches that are sent to the teachers ahead of the student's step. 0: student
    and teachers take turns. More hides more of the teachers' time and takes memory. Our
    choice."""
    replicas: int
    """Number of actors with the same teachers. More of them answer more requests a second and
    survive the loss of a machine."""
    resources: Mapping[str, float]
    """Ray resources that each actor requests, such as `{CPU: 2, GPU: 0.5, teacher: 1}`. `CPU` is
    1 by default, or less where the cluster is small, so that teachers take at most half of it
    and every worker finds a core; `GPU` is 0, and a fraction shares one device. Resources of
    your own place the actors on machines that offer them."""
    timeout_seconds: float
    """Time limit of one answer, in seconds. After it the actor is restarted once, or another
    replica is asked; a teacher that does not answer then ends the run, which the same command
    resumes. Raise it for large teachers on slow machines. Our choice."""
    on_truncated: Literal["stop", "learn"]
    """Action where a teacher with another tokenizer truncates a row that the student reads
    whole. `stop`: an error before anything starts. `learn`: the student learns from the
    teacher's answer for the beginning of the row; of spans, characters behind it get its
    lowest probability. Rows that the student truncates as well do not count. Our choice."""
    answers: Literal["auto", "live", "once"]
    """Time of the teachers' answers. `live`: beside the student's steps, in every epoch. `once`:
    to all training rows, before the first step, into a table of each teacher; every further
    epoch, student and seed reads it. `auto`: once if `distillation.store` is given, else
    live."""
    store: str | Path | None
    """Directory of the tables of `distillation.answers=once`; many runs may share it. None:
    `answers` in the run directory. Trials of a sweep share that of the sweep by default."""
    check_parity: bool
    """Compare the logits of the source in use (actor, table) with the model's on a few rows
    before the first step; a difference is an error. False skips the seconds that it takes."""
    teachers: Mapping[str, str | Path | Sequence[str | Path]]
    """Teachers by data set: a model or run directory, a hub name, a file of answers, a
    `teachers.json`, or a list of directories and files, or of a `teachers.json` and files.
    Data sets without an entry learn from labels only. Empty: no distillation."""

class _Weighting(TypedDict, total=False):
    rule: (
        Literal[
            None,
            "mean",
            "correctness",
            "correct_only",
            "confidence",
            "entropy",
            "mean_probabilities",
            "probability_shift",
        ]
        | str
        | Path
    )
    """Weighting rule. None: `correctness` for several teachers; `mean` for one, which is plain
    knowledge distillation. `mean`: equal weights. `correctness`: ROaD's Algorithm 2.
    `correct_only`: correct teachers only. `confidence`: by the probability of the label (CA-
    MKD). `entropy`: by certainty (EBKD). `mean_probabilities`: mean of probabilities (MT-DNN-
    KD). `probability_shift`: mean, whose top logit is swapped with the label's where it errs
    (TextBrewer). Or a function of your own, `package.module:name`."""
    wrong: float
    """Weight W of a teacher that errs on an example, from 0 to 1; correct teachers share the
    rest. 1 is the plain mean. 0.75 is ROaD's typical value (part 1, Algorithm 2)."""
    all_wrong: Literal["scale", "mean", "drop"]
    """Weights where all teachers err. `scale`: `weighting.wrong` each, as Algorithm 2 reads.
    `mean`: 1 each. `drop`: 0 each, so that the example learns from its label only. The paper
    leaves the case open; `scale` is our choice."""
    span_correctness: Literal["independent", "joint"]
    """Correctness of an answer span, or of a row with several labels. `independent`: start and
    end, or each label, are weighted separately. `joint`: a teacher is correct if both, or all
    labels, are. The paper leaves it open; `independent` is our choice."""

class _FinetuneData(TypedDict, total=False):
    root: str | Path | None
    """Directory of the data sets in their published layouts, `miniature` (the embedded data set)
    or `hub` (the Hugging Face hub). None: the environment variable `ROAD_DATA`, or the hub
    where it is not set."""
    max_length_tokens: int | None
    """Maximum length of a row, in tokens; longer texts are truncated or read in windows
    (`data.windows`), longer contexts are split into windows. None: 384 for span tasks and 128
    for all others, as for BERT; `road evaluate` takes the length of the training. ELECTRA
    uses 512 for span tasks."""
    stride_tokens: int | None
    """Distance between the starts of successive windows, in tokens (BERT's `doc_stride`). None:
    128 for contexts of a span task, as google-research/electra, and for `data.windows` the
    length of a window, so that they do not overlap; `road evaluate` takes that of the
    training."""
    windows: Literal["none", "mean", "max"] | None
    """Reading of texts that are longer than `data.max_length_tokens`, of tasks with one text and
    classes, several labels or a number. `none`: they are truncated. `mean`, `max`: they are
    split into windows. Each window is trained on with the label of its text (Pappagari et al.
    2019); predictions and metrics are of the mean or the maximum of the windows' logits.
    None: `none`; `road evaluate` takes that of the training."""
    span_head: Literal["independent", "joint"]
    """Head for answer spans. `independent`: start and end are predicted independently, position
    0 means no answer (ROaD). `joint`: the end is predicted given the start, and a classifier
    decides whether there is an answer (ELECTRA). Plain transformers cannot load `joint`, and
    such a model cannot be a teacher."""
    pair_head: Literal["first_token", "answer_network"]
    """Head for sentence pairs. `first_token`: a linear classifier of the first token (ELECTRA).
    `answer_network`: the stochastic answer network of MT-DNN. Plain transformers cannot load
    `answer_network`, and such a model cannot be a teacher."""
    sets: Mapping[str, _Sets]
    """The user's own data sets by name, beside those of the catalogue; each is an entry with
    files, columns and labels. A name has letters, digits, `.`, `_` and `-`; one of the
    catalogue is not allowed."""
    max_rows: int | None
    """Number of training examples to use, drawn by a shuffle that is the same for all seeds.
    None: all. Set it for quick experiments and learning curves."""
    max_unlabelled_rows: int | None
    """Number of rows of `data.unlabelled=rest` to use. None: all."""
    label_noise: float
    """Fraction of training labels that are replaced by another class, each equally likely. 0:
    none. Set it to see what a method makes of wrong labels."""
    corrections: str | Path | None
    """Table that corrects training labels, as `road data errors` writes it. Its column
    `correction` has `drop` for rows to leave out, or the right label. None: all labels are as
    they are in the data."""
    max_judged_rows: int | None
    """Number of evaluation examples to use, drawn by a shuffle that is the same for all seeds.
    None: all, as published results require."""
    batch_size: int
    """Global batch size of one pass, in examples, over all workers. Source: Clark et al. 2020,
    table 7."""
    dataset: str | Path
    """Data set to train on, of the catalogue (`road data list`) or of `data.sets`."""
    evaluate_on: Sequence[str | Path] | None
    """Data sets to evaluate on at the end, all of the task of `data.dataset`. None: that data
    set alone. Thresholds and temperature are fitted to its dev split, if it is named, and
    used on all."""
    epochs: float
    """Number of epochs over the training examples; without effect where `training.steps` is
    given. 3 in ELECTRA, 2 for SQuAD, 10 for RTE and STS-B (Clark et al. 2020, table 7)."""
    class_weights: Literal["balanced"] | Mapping[str, float] | None
    """Factor of the loss by class or tag; of several labels, of the rows that have the label.
    `balanced`: rows / (labels * rows of the label), as in scikit-learn, so that rare labels
    count as much as frequent ones; of several labels, rows without the label / rows with it.
    A mapping: by label, 1 for others. None: 1 for all."""
    label_smoothing: float
    """Share of the target of classes, tags and choices that is spread over all labels (Szegedy
    et al. 2016, section 7); each of several labels has the target 1 - s / 2 or s / 2. 0: the
    label alone."""
    held_out_fold: Sequence[int] | None
    """Fold that is left out of the training, from 0, and the number of folds that the examples
    are split into by their text. None: train on all. `road teachers` with `num_folds` sets
    it."""

class _Student(TypedDict, total=False):
    layers: int | Sequence[int] | None
    """Number of layers that are kept, evenly spread from the first (3 of 6: 0, 2, 4), as
    DistilBERT takes every second one (Sanh et al. 2019), or their indices from 0, such as
    `[0, 1, 2]`. The model is then a smaller one of the same family, which any program loads.
    None: all layers. Half of the layers halve the time of a prediction, but for embeddings
    and head."""

class _DistillData(TypedDict, total=False):
    root: str | Path | None
    """Directory of the data sets in their published layouts, `miniature` (the embedded data set)
    or `hub` (the Hugging Face hub). None: the environment variable `ROAD_DATA`, or the hub
    where it is not set."""
    max_length_tokens: int | None
    """Maximum length of a row, in tokens; longer texts are truncated or read in windows
    (`data.windows`), longer contexts are split into windows. None: 384 for span tasks and 128
    for all others, as for BERT; `road evaluate` takes the length of the training. ELECTRA
    uses 512 for span tasks."""
    stride_tokens: int | None
    """Distance between the starts of successive windows, in tokens (BERT's `doc_stride`). None:
    128 for contexts of a span task, as google-research/electra, and for `data.windows` the
    length of a window, so that they do not overlap; `road evaluate` takes that of the
    training."""
    windows: Literal["none", "mean", "max"] | None
    """Reading of texts that are longer than `data.max_length_tokens`, of tasks with one text and
    classes, several labels or a number. `none`: they are truncated. `mean`, `max`: they are
    split into windows. Each window is trained on with the label of its text (Pappagari et al.
    2019); predictions and metrics are of the mean or the maximum of the windows' logits.
    None: `none`; `road evaluate` takes that of the training."""
    span_head: Literal["independent", "joint"]
    """Head for answer spans. `independent`: start and end are predicted independently, position
    0 means no answer (ROaD). `joint`: the end is predicted given the start, and a classifier
    decides whether there is an answer (ELECTRA). Plain transformers cannot load `joint`, and
    such a model cannot be a teacher."""
    pair_head: Literal["first_token", "answer_network"]
    """Head for sentence pairs. `first_token`: a linear classifier of the first token (ELECTRA).
    `answer_network`: the stochastic answer network of MT-DNN. Plain transformers cannot load
    `answer_network`, and such a model cannot be a teacher."""
    sets: Mapping[str, _Sets]
    """The user's own data sets by name, beside those of the catalogue; each is an entry with
    files, columns and labels. A name has letters, digits, `.`, `_` and `-`; one of the
    catalogue is not allowed."""
    max_rows: int | None
    """Number of training examples to use, drawn by a shuffle that is the same for all seeds.
    None: all. Set it for quick experiments and learning curves."""
    max_unlabelled_rows: int | None
    """Number of rows of `data.unlabelled=rest` to use. None: all."""
    label_noise: float
    """Fraction of training labels that are replaced by another class, each equally likely. 0:
    none. Set it to see what a method makes of wrong labels."""
    corrections: str | Path | None
    """Table that corrects training labels, as `road data errors` writes it. Its column
    `correction` has `drop` for rows to leave out, or the right label. None: all labels are as
    they are in the data."""
    max_judged_rows: int | None
    """Number of evaluation examples to use, drawn by a shuffle that is the same for all seeds.
    None: all, as published results require."""
    batch_size: int
    """Global batch size of one pass, in examples, over all workers. Source: Clark et al. 2020,
    table 7."""
    dataset: str | Path
    """Data set to train on, of the catalogue (`road data list`) or of `data.sets`."""
    evaluate_on: Sequence[str | Path] | None
    """Data sets to evaluate on at the end, all of the task of `data.dataset`. None: that data
    set alone. Thresholds and temperature are fitted to its dev split, if it is named, and
    used on all."""
    epochs: float
    """Number of epochs over the training examples; without effect where `training.steps` is
    given. 3 in ELECTRA, 2 for SQuAD, 10 for RTE and STS-B (Clark et al. 2020, table 7)."""
    class_weights: Literal["balanced"] | Mapping[str, float] | None
    """Factor of the loss by class or tag; of several labels, of the rows that have the label.
    `balanced`: rows / (labels * rows of the label), as in scikit-learn, so that rare labels
    count as much as frequent ones; of several labels, rows without the label / rows with it.
    A mapping: by label, 1 for others. None: 1 for all."""
    label_smoothing: float
    """Share of the target of classes, tags and choices that is spread over all labels (Szegedy
    et al. 2016, section 7); each of several labels has the target 1 - s / 2 or s / 2. 0: the
    label alone."""
    held_out_fold: Sequence[int] | None
    """Fold that is left out of the training, from 0, and the number of folds that the examples
    are split into by their text. None: train on all. `road teachers` with `num_folds` sets
    it."""
    unlabelled: Sequence[str | Path]
    """Files and data sets whose rows are trained on without labels, behind those of
    `data.dataset`, and `rest`, its own rows beyond `data.max_rows`. The teachers alone teach
    them, with equal weights unless `weighting.rule` is `entropy`, which reads no labels.
    JSONL, CSV, TSV and Parquet have the text columns of the data set or `text` and
    `text_pair`, `question` and `context`; `.txt` has one text a line; `.json` is SQuAD's
    layout. Labels that are there are ignored; `data.max_rows` does not count these rows.
    Empty: none."""

class _Matching(TypedDict, total=False):
    hidden_weight: float
    """Weight of the mean squared error between hidden states, after a learned projection to the
    teacher's width. 0: off. ROaD reports no gain over logits alone (part 2, section 4.3)."""
    attention_weight: float
    """Weight of the squared error between attention maps. 0: off. Other values use the slower
    eager attention. Source: ROaD's note on decoupled transformers, which uses 0.5."""
    layers: Literal["uniform", "last"] | Sequence[Sequence[int]]
    """Matched layers. `uniform`: every student layer with an evenly spread teacher layer (24 to
    12: every second one, as in ROaD part 2). `last`: the last layers of both. Or pairs
    [student layer, teacher layer], counted from 1."""

class _DistillDistillation(TypedDict, total=False):
    num_teachers: int | None
    """Number of teachers that each row must have, files among them, so that a forgotten one is
    an error; in a mixture of every data set, where one without teachers then needs the entry
    `[]`. None: as many as `distillation.teachers` names. ROaD distils from three."""
    kd_weight: float
    """Weight of the distillation loss, from 0 to 1; the label loss gets the rest: (1 -
    kd_weight) * CE + kd_weight * T^2 * KL. 0: labels only. 1: teachers only. ROaD does not
    print its value; 0.5 is our choice."""
    temperature: float
    """Temperature T of teacher and student logits in the distillation loss. The factor T^2 keeps
    the size of the gradient (Hinton et al. 2015). Larger values weigh unlikely classes more.
    ROaD tunes it without printing it; 2 is our choice."""
    schedule: Literal["constant", "linear"] | Sequence[Sequence[float]]
    """Course of `distillation.kd_weight` over the training. `constant`: unchanged. `linear`:
    from 1 to 0, regardless of its value (teacher annealing, Clark et al. 2019). Or points
    [fraction of training, kd_weight], joined by straight lines."""
    average_loss: bool
    """Average the losses to each teacher, weighted by `weighting.rule`. False: one loss to the
    weighted mean of the teachers' logits, as in ROaD."""
    host: Literal["actors", "process"]
    """Place of the teachers. `actors`: Ray actors, which several workers and runs can use.
    `process`: in every training process, which needs no Ray but the memory for all teachers."""
    precision: Literal["auto", "fp32", "bf16"]
    """Number format of the teachers' matrix products. `fp32`: full precision. `bf16`: autocast
    to bfloat16, logits have 8 significant bits. `auto`: bf16 where the device is faster with
    it. Teachers of numbers compute in fp32."""
    torch_compile: bool
    """Compile the teachers with `torch.compile`, once for batches of all lengths. Meant for GPUs
    and thousands of steps, not measured on one: the first answer waits for the compiler,
    minutes on a CPU. Raise `distillation.timeout_seconds` where that takes longer. Parts that
    cannot be compiled run uncompiled."""
    label_map: Mapping[str, str | Path | Mapping[str, str | Path]]
    """Label names of the teachers' heads mapped to those of the task, such as `{LABEL_0:
    negative}`. A teacher's directory or file mapped to such names is a map for it. Empty: the
    names are equal but for case, spaces and hyphens."""
    lookahead: int
    """Number of batches that are sent to the teachers ahead of the student's step. 0: student
    and teachers take turns. More hides more of the teachers' time and takes memory. Our
    choice."""
    replicas: int
    """Number of actors with the same teachers. More of them answer more requests a second and
    survive the loss of a machine."""
    resources: Mapping[str, float]
    """Ray resources that each actor requests, such as `{CPU: 2, GPU: 0.5, teacher: 1}`. `CPU` is
    1 by default, or less where the cluster is small, so that teachers take at most half of it
    and every worker finds a core; `GPU` is 0, and a fraction shares one device. Resources of
    your own place the actors on machines that offer them."""
    timeout_seconds: float
    """Time limit of one answer, in seconds. After it the actor is restarted once, or another
    replica is asked; a teacher that does not answer then ends the run, which the same command
    resumes. Raise it for large teachers on slow machines. Our choice."""
    on_truncated: Literal["stop", "learn"]
    """Action where a teacher with another tokenizer truncates a row that the student reads
    whole. `stop`: an error before anything starts. `learn`: the student learns from the
    teacher's answer for the beginning of the row; of spans, characters behind it get its
    lowest probability. Rows that the student truncates as well do not count. Our choice."""
    answers: Literal["auto", "live", "once"]
    """Time of the teachers' answers. `live`: beside the student's steps, in every epoch. `once`:
    to all training rows, before the first step, into a table of each teacher; every further
    epoch, student and seed reads it. `auto`: once if `distillation.store` is given, else
    live."""
    store: str | Path | None
    """Directory of the tables of `distillation.answers=once`; many runs may share it. None:
    `answers` in the run directory. Trials of a sweep share that of the sweep by default."""
    check_parity: bool
    """Compare the logits of the source in use (actor, table) with the model's on a few rows
    before the first step; a difference is an error. False skips the seconds that it takes."""
    teachers: Sequence[str | Path]
    """Teachers: model or run directories, hub names, files of answers (CSV, TSV, JSONL or
    Parquet, such as `road predict` writes), or one `teachers.json` of `road teachers`, which
    may have files beside it. Required."""
    generations: int
    """Number of born-again generations (Furlanello et al. 2018): each student is the only
    teacher of the next. 1: one student. ROaD found no gain from more."""
    matching: _Matching
    """Distillation from hidden states and attention maps, besides logits. Off by default."""

class _EvaluateData(TypedDict, total=False):
    root: str | Path | None
    """Directory of the data sets in their published layouts, `miniature` (the embedded data set)
    or `hub` (the Hugging Face hub). None: the environment variable `ROAD_DATA`, or the hub
    where it is not set."""
    max_length_tokens: int | None
    """Maximum length of a row, in tokens; longer texts are truncated or read in windows
    (`data.windows`), longer contexts are split into windows. None: 384 for span tasks and 128
    for all others, as for BERT; `road evaluate` takes the length of the training. ELECTRA
    uses 512 for span tasks."""
    stride_tokens: int | None
    """Distance between the starts of successive windows, in tokens (BERT's `doc_stride`). None:
    128 for contexts of a span task, as google-research/electra, and for `data.windows` the
    length of a window, so that they do not overlap; `road evaluate` takes that of the
    training."""
    windows: Literal["none", "mean", "max"] | None
    """Reading of texts that are longer than `data.max_length_tokens`, of tasks with one text and
    classes, several labels or a number. `none`: they are truncated. `mean`, `max`: they are
    split into windows. Each window is trained on with the label of its text (Pappagari et al.
    2019); predictions and metrics are of the mean or the maximum of the windows' logits.
    None: `none`; `road evaluate` takes that of the training."""
    span_head: Literal["independent", "joint"]
    """Head for answer spans. `independent`: start and end are predicted independently, position
    0 means no answer (ROaD). `joint`: the end is predicted given the start, and a classifier
    decides whether there is an answer (ELECTRA). Plain transformers cannot load `joint`, and
    such a model cannot be a teacher."""
    pair_head: Literal["first_token", "answer_network"]
    """Head for sentence pairs. `first_token`: a linear classifier of the first token (ELECTRA).
    `answer_network`: the stochastic answer network of MT-DNN. Plain transformers cannot load
    `answer_network`, and such a model cannot be a teacher."""
    sets: Mapping[str, _Sets]
    """The user's own data sets by name, beside those of the catalogue; each is an entry with
    files, columns and labels. A name has letters, digits, `.`, `_` and `-`; one of the
    catalogue is not allowed."""
    max_rows: int | None
    """Number of training examples to use, drawn by a shuffle that is the same for all seeds.
    None: all. Set it for quick experiments and learning curves."""
    max_unlabelled_rows: int | None
    """Number of rows of `data.unlabelled=rest` to use. None: all."""
    label_noise: float
    """Fraction of training labels that are replaced by another class, each equally likely. 0:
    none. Set it to see what a method makes of wrong labels."""
    corrections: str | Path | None
    """Table that corrects training labels, as `road data errors` writes it. Its column
    `correction` has `drop` for rows to leave out, or the right label. None: all labels are as
    they are in the data."""
    max_judged_rows: int | None
    """Number of evaluation examples to use, drawn by a shuffle that is the same for all seeds.
    None: all, as published results require."""
    datasets: Sequence[str | Path]
    """Data sets to evaluate on, of the catalogue or of `data.sets`, each with the head of its
    task; of a `teachers.json` all of one task. Empty: those that the model was trained on.
    The no-answer threshold is the one that is stored with the model."""
    file: str | Path | None
    """Labelled file with the columns of the data set that the model was trained on, which is
    evaluated in its place: `road evaluate RUN FILE`. None: the split of the data set."""
    split: Literal["dev", "test", "train"]
    """Split to evaluate on. Without labels, predictions are written and metrics are not."""

class _Stages(TypedDict, total=False):
    verb: Literal["pretrain", "multitask"]
    """Verb of the training, and section of its keys that all arms share."""
    keys: Mapping[str, Any]
    """Keys of the verb that this stage changes, by dotted name."""
    teachers: str | Path
    """Name in `experiment.ensembles` of the teachers that each data set of a mixture has. Empty:
    none."""
    batch_factor: int
    """Factor of the batch size of a mixture."""

class _Arms(TypedDict, total=False):
    about: str | Path
    """Title in tables. Empty: the name of the arm."""
    keys: Mapping[str, Any]
    """Keys of `road finetune`, or with teachers of `road distill`, that the arm changes, by
    dotted name."""
    stages: Sequence[_Stages]
    """Trainings before the ones that score the arm, each from the model of the one before."""
    start_from: str | Path
    """Arm whose last model, of the same seed, this arm starts from. Empty: `init`."""
    teachers: str | Path
    """Name in `experiment.ensembles` of the teachers of the arm. Empty: no distillation."""
    members: int | None
    """Number of its teachers, the first ones, that the student has. None: all."""
    combine: Literal["ensemble", "uniform", "greedy"] | None
    """Ways to join its teachers without a student: `ensemble` (mean of logits), `uniform` or
    `greedy` (mean of weights). The teachers of every arm are then of its own seed. None:
    train a student."""
    unlabelled: bool
    """True: rows without labels follow the labelled ones, those of `data.unlabelled`, or else
    the rest."""
    as_many_updates: bool
    """True: as many updates as an arm with rows without labels makes."""
    layers: float
    """Fraction of the layers of `init` that the student keeps."""
    share: float
    """Share of the budget in `flops`, divided evenly among the stages."""
    against: Sequence[str | Path]
    """Arms that it is tested against. Empty: the first arm."""
    published: Mapping[str, float]
    """Published figures, by `data set/metric`."""

class _Experiment(TypedDict, total=False):
    about: str | Path
    """Title of tables and pages: the things that are compared. Empty: the name of `run_dir`."""
    source: str | Path
    """Paper that the published figures are of."""
    equal: Literal["flops", "steps"] | None
    """Cost that all arms of a pre-training have in common: `flops` or, with as many steps as
    those buy the first arm, `steps`. None: every arm starts from `init`."""
    targets: Mapping[str, Mapping[str, Any]]
    """Data sets that score the arms, each with the keys in which it differs, where neither
    `targets` nor `data.dataset` names others."""
    ensembles: Mapping[str, Mapping[str, Any]]
    """Ensembles of teachers by name, each with the keys of `road teachers` that it changes."""
    arms: Mapping[str, _Arms]
    """Arms by name. The first is what the others are tested against. Required."""

class _Multitask(TypedDict, total=False):
    run_dir: str | Path
    """Directory of the run: configuration, metrics, checkpoints and final models. The same
    command on the same directory resumes the run."""
    seed: int
    """Random seed of new weights, order of batches, masking, dropout and drawn data sets. Change
    it to repeat a run."""
    workers: int
    """Number of Ray Train workers that share each batch. 0: train in this process."""
    min_workers: int | None
    """Smallest number of workers to train with while machines are missing; the group grows back
    to `workers`. None: wait until all workers have a place. Set it for preemptible machines."""
    gpus_per_worker: float
    """Number of GPUs of each worker or parallel task. 0: CPU only, except that a run without
    workers uses the GPU of this machine. A fraction lets parallel tasks share a device;
    workers of one run cannot, because NCCL takes one for each GPU."""
    address: str | Path | None
    """Address of a running Ray cluster, such as `10.0.0.1:6379`. None: the cluster of the
    environment variable `RAY_ADDRESS` or of the surrounding Ray job, else a local one that
    ends with the run."""
    console: Literal["rich", "plain", "quiet"] | None
    """Progress on standard error. `plain`: a line for the first and the last row, for
    evaluations and every ten seconds. `quiet`: nothing. None, and `rich` of earlier versions:
    `plain`."""
    tracking: _Tracking
    """Experiment trackers besides `metrics.jsonl`. By default there are none."""
    init: str | Path
    """Model to start from: a run directory, an `hf/` directory or a hub name. Required."""
    data: _MultitaskData
    """Data sets of the mixture, row length and batch size."""
    encoder: _MultitaskEncoder
    """Attention implementation of the model that is trained."""
    optimizer: _Optimizer
    """Optimizer and learning-rate schedule. The defaults are ROaD's: peak rate 3e-4, layer decay
    0.75, 500 steps of warm-up to the peak, then linear decay (part 1, section 3.5)."""
    training: _Training
    """Number of steps, evaluations and checkpoints. 20,000 steps as for ROaD-Large (part 1,
    section 3.5); ROaD-Base has 40,000 (part 2, section 5.1)."""
    calibrate: bool
    """Fit a temperature on the dev split of each task of classes, several labels or choices (Guo
    et al. 2017) and store it with the model. `road predict`, `road serve` and `road_ray.load`
    divide the logits by it; the weights, so the probabilities of plain transformers, stay as
    they are. False: none."""
    mixing: _Mixing
    """Composition of a step: passes, sampling of data sets, heads and loss weights."""
    distillation: _Distillation
    """Teachers of the data sets and the distillation loss. By default there are no teachers."""
    weighting: _Weighting
    """Weights of several teachers of one data set. Without effect where a data set has one
    teacher or none, except that a rule may scale its logits."""

class _Pretrain(TypedDict, total=False):
    run_dir: str | Path
    """Directory of the run: configuration, metrics, checkpoints and final models. The same
    command on the same directory resumes the run."""
    seed: int
    """Random seed of new weights, order of batches, masking, dropout and drawn data sets. Change
    it to repeat a run."""
    workers: int
    """Number of Ray Train workers that share each batch. 0: train in this process."""
    min_workers: int | None
    """Smallest number of workers to train with while machines are missing; the group grows back
    to `workers`. None: wait until all workers have a place. Set it for preemptible machines."""
    gpus_per_worker: float
    """Number of GPUs of each worker or parallel task. 0: CPU only, except that a run without
    workers uses the GPU of this machine. A fraction lets parallel tasks share a device;
    workers of one run cannot, because NCCL takes one for each GPU."""
    address: str | Path | None
    """Address of a running Ray cluster, such as `10.0.0.1:6379`. None: the cluster of the
    environment variable `RAY_ADDRESS` or of the surrounding Ray job, else a local one that
    ends with the run."""
    console: Literal["rich", "plain", "quiet"] | None
    """Progress on standard error. `plain`: a line for the first and the last row, for
    evaluations and every ten seconds. `quiet`: nothing. None, and `rich` of earlier versions:
    `plain`."""
    tracking: _Tracking
    """Experiment trackers besides `metrics.jsonl`. By default there are none."""
    init: str | Path
    """Encoder to start from: a run directory, an `hf/` directory or a hub name, of the size of
    `encoder`. Its tokenizer is used unless `data.tokenizer` is given. Empty: new weights."""
    data: _Data
    """Text, tokenizer, row length and batch size."""
    encoder: _Encoder
    """Architecture and size of the main encoder, which fine-tuning later uses."""
    generator: _Generator
    """Generator that corrupts the input. Without effect for `objective.name` = `mlm`."""
    objective: _Objective
    """Pre-training objective and its options. ELECTRA by default."""
    optimizer: _Optimizer
    """Optimizer and learning-rate schedule. The defaults are those of ELECTRA-Small: peak rate
    5e-4, 10,000 steps of warm-up (Clark et al. 2020, table 6). Base and Large: 2e-4."""
    training: _Training
    """Number of steps, evaluations and checkpoints. 1,000,000 steps as for ELECTRA-Small; Base
    has 766,000, Large 400,000 (Clark et al. 2020, table 6)."""

def pretrain(
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    run_dir: str | Path = ...,
    seed: int = ...,
    workers: int = ...,
    min_workers: int | None = ...,
    gpus_per_worker: float = ...,
    address: str | Path | None = ...,
    console: Literal["rich", "plain", "quiet"] | None = ...,
    tracking: _Tracking = ...,
    init: str | Path = ...,
    data: _Data = ...,
    encoder: _Encoder = ...,
    generator: _Generator = ...,
    objective: _Objective = ...,
    optimizer: _Optimizer = ...,
    training: _Training = ...,
) -> Run:
    """Pre-train an encoder on a text corpus (ELECTRA and its successors).

    >>> import road_ray as rr
    >>> run = rr.pretrain(
    ...     preset="tiny_electra", run_dir="runs/encoder",
    ...     data={"root": "miniature", "max_length_tokens": 32}, training={"steps": 2},
    ... )

    Args:
        run_dir: Directory of the run: configuration, metrics, checkpoints and final models.
        The same command on the same directory resumes the run.
        seed: Random seed of new weights, order of batches, masking, dropout and drawn data
        sets. Change it to repeat a run.
        workers: Number of Ray Train workers that share each batch. 0: train in this process.
        min_workers: Smallest number of workers to train with while machines are missing; the
        group grows back to `workers`. None: wait until all workers have a place. Set it for
        preemptible machines.
        gpus_per_worker: Number of GPUs of each worker or parallel task. 0: CPU only, except
        that a run without workers uses the GPU of this machine. A fraction lets parallel
        tasks share a device; workers of one run cannot, because NCCL takes one for each GPU.
        address: Address of a running Ray cluster, such as `10.0.0.1:6379`. None: the cluster
        of the environment variable `RAY_ADDRESS` or of the surrounding Ray job, else a local
        one that ends with the run.
        console: Progress on standard error. `plain`: a line for the first and the last row,
        for evaluations and every ten seconds. `quiet`: nothing. None, and `rich` of earlier
        versions: `plain`.
        tracking: Experiment trackers besides `metrics.jsonl`. By default there are none.
        init: Encoder to start from: a run directory, an `hf/` directory or a hub name, of the
        size of `encoder`. Its tokenizer is used unless `data.tokenizer` is given. Empty: new
        weights.
        data: Text, tokenizer, row length and batch size.
        encoder: Architecture and size of the main encoder, which fine-tuning later uses.
        generator: Generator that corrupts the input. Without effect for `objective.name` =
        `mlm`.
        objective: Pre-training objective and its options. ELECTRA by default.
        optimizer: Optimizer and learning-rate schedule. The defaults are those of ELECTRA-
        Small: peak rate 5e-4, 10,000 steps of warm-up (Clark et al. 2020, table 6). Base and
        Large: 2e-4.
        training: Number of steps, evaluations and checkpoints. 1,000,000 steps as for
        ELECTRA-Small; Base has 766,000, Large 400,000 (Clark et al. 2020, table 6).
    """

def multitask(
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    run_dir: str | Path = ...,
    seed: int = ...,
    workers: int = ...,
    min_workers: int | None = ...,
    gpus_per_worker: float = ...,
    address: str | Path | None = ...,
    console: Literal["rich", "plain", "quiet"] | None = ...,
    tracking: _Tracking = ...,
    init: str | Path = ...,
    data: _MultitaskData = ...,
    encoder: _MultitaskEncoder = ...,
    optimizer: _Optimizer = ...,
    training: _Training = ...,
    calibrate: bool = ...,
    mixing: _Mixing = ...,
    distillation: _Distillation = ...,
    weighting: _Weighting = ...,
) -> Run:
    """Train one encoder on a mix of data sets, one head per task.

    >>> import road_ray as rr
    >>> run = rr.multitask(
    ...     init="runs/encoder", run_dir="runs/mixture", training={"steps": 2},
    ...     data={"root": "miniature", "datasets": ["sst2", "mnli"], "max_judged_rows": 16},
    ... )

    Args:
        run_dir: Directory of the run: configuration, metrics, checkpoints and final models.
        The same command on the same directory resumes the run.
        seed: Random seed of new weights, order of batches, masking, dropout and drawn data
        sets. Change it to repeat a run.
        workers: Number of Ray Train workers that share each batch. 0: train in this process.
        min_workers: Smallest number of workers to train with while machines are missing; the
        group grows back to `workers`. None: wait until all workers have a place. Set it for
        preemptible machines.
        gpus_per_worker: Number of GPUs of each worker or parallel task. 0: CPU only, except
        that a run without workers uses the GPU of this machine. A fraction lets parallel
        tasks share a device; workers of one run cannot, because NCCL takes one for each GPU.
        address: Address of a running Ray cluster, such as `10.0.0.1:6379`. None: the cluster
        of the environment variable `RAY_ADDRESS` or of the surrounding Ray job, else a local
        one that ends with the run.
        console: Progress on standard error. `plain`: a line for the first and the last row,
        for evaluations and every ten seconds. `quiet`: nothing. None, and `rich` of earlier
        versions: `plain`.
        tracking: Experiment trackers besides `metrics.jsonl`. By default there are none.
        init: Model to start from: a run directory, an `hf/` directory or a hub name.
        Required.
        data: Data sets of the mixture, row length and batch size.
        encoder: Attention implementation of the model that is trained.
        optimizer: Optimizer and learning-rate schedule. The defaults are ROaD's: peak rate
        3e-4, layer decay 0.75, 500 steps of warm-up to the peak, then linear decay (part 1,
        section 3.5).
        training: Number of steps, evaluations and checkpoints. 20,000 steps as for ROaD-Large
        (part 1, section 3.5); ROaD-Base has 40,000 (part 2, section 5.1).
        calibrate: Fit a temperature on the dev split of each task of classes, several labels
        or choices (Guo et al. 2017) and store it with the model. `road predict`, `road serve`
        and `road_ray.load` divide the logits by it; the weights, so the probabilities of
        plain transformers, stay as they are. False: none.
        mixing: Composition of a step: passes, sampling of data sets, heads and loss weights.
        distillation: Teachers of the data sets and the distillation loss. By default there
        are no teachers.
        weighting: Weights of several teachers of one data set. Without effect where a data
        set has one teacher or none, except that a rule may scale its logits.
    """

def finetune(
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    run_dir: str | Path = ...,
    seed: int = ...,
    workers: int = ...,
    min_workers: int | None = ...,
    gpus_per_worker: float = ...,
    address: str | Path | None = ...,
    console: Literal["rich", "plain", "quiet"] | None = ...,
    tracking: _Tracking = ...,
    init: str | Path = ...,
    data: _FinetuneData = ...,
    encoder: _MultitaskEncoder = ...,
    optimizer: _Optimizer = ...,
    training: _Training = ...,
    calibrate: bool = ...,
    init_weights: Literal["all", "encoder", "none"] = ...,
    label_map: Mapping[str, str | Path | Mapping[str, str | Path]] = ...,
    student: _Student = ...,
    num_seeds: int = ...,
    pool: Mapping[str, Mapping[str, Any]] = ...,
    max_concurrent: int = ...,
) -> Run:
    """Fine-tune a model on one data set (`data.dataset`), or separately on each of several
    (`pool`), with `num_seeds` seeds each.

    >>> import road_ray as rr
    >>> run = rr.finetune(
    ...     init="runs/encoder", run_dir="runs/finetune", training={"steps": 2},
    ...     data={"root": "miniature", "dataset": "sst2", "max_judged_rows": 16},
    ... )

    Args:
        run_dir: Directory of the run: configuration, metrics, checkpoints and final model.
        The same command on the same directory resumes the run.
        seed: Random seed of new weights, order of batches, masking, dropout and drawn data
        sets. Change it to repeat a run.
        workers: Number of Ray Train workers that share each batch. 0: train in this process.
        min_workers: Smallest number of workers to train with while machines are missing; the
        group grows back to `workers`. None: wait until all workers have a place. Set it for
        preemptible machines.
        gpus_per_worker: Number of GPUs of each worker or parallel task. 0: CPU only, except
        that a run without workers uses the GPU of this machine. A fraction lets parallel
        tasks share a device; workers of one run cannot, because NCCL takes one for each GPU.
        address: Address of a running Ray cluster, such as `10.0.0.1:6379`. None: the cluster
        of the environment variable `RAY_ADDRESS` or of the surrounding Ray job, else a local
        one that ends with the run.
        console: Progress on standard error. `plain`: a line for the first and the last row,
        for evaluations and every ten seconds. `quiet`: nothing. None, and `rich` of earlier
        versions: `plain`.
        tracking: Experiment trackers besides `metrics.jsonl`. By default there are none.
        init: Model to start from: a run directory, an `hf/` directory or a hub name.
        Required.
        data: Data set to train on, data sets to evaluate on, row length and batch size.
        encoder: Attention implementation of the model that is trained.
        optimizer: Optimizer and learning-rate schedule. The defaults are those of ELECTRA-
        Small: peak rate 3e-4, layer decay 0.8, no weight decay (Clark et al. 2020, table 7).
        Base: 1e-4 and 0.8; Large: 5e-5 and 0.9. Models of other families: 2e-5 to 5e-5 and 1
        (Devlin et al. 2019).
        training: Length of the training, evaluations and checkpoints.
        calibrate: Fit a temperature on the dev split of each task of classes, several labels
        or choices (Guo et al. 2017) and store it with the model. `road predict`, `road serve`
        and `road_ray.load` divide the logits by it; the weights, so the probabilities of
        plain transformers, stay as they are. False: none.
        init_weights: Weights of `init` to start from. `all`: also its head, where it was
        trained on the same task, for example by `road multitask`. `encoder`: with a new head.
        `none`: random weights with the size and tokenizer of `init`, the baseline that shows
        what pre-training gains.
        label_map: Label names of the head of `init`, where it is kept, mapped to those of the
        task, such as `{LABEL_0: negative}`. Empty: the names are equal but for case, spaces
        and hyphens.
        student: Layers of `init` that are kept, for a smaller model.
        num_seeds: Number of runs of each data set, with seeds `seed`, `seed` + 1 and so on;
        metrics are their means. 1: a single run. ELECTRA reports medians of 10.
        pool: Data sets to fine-tune on, each with the keys in which it differs from this
        configuration, such as `{rte: {data.epochs: 10}}`. With `init` one starts from the
        model, of the same seed, of another one of the pool: `{rte: {init: mnli}}`. Those
        without files below the data root are left out, with a warning. Empty: `data.dataset`
        alone.
        max_concurrent: Number of runs at the same time, each a Ray task of one core and
        `gpus_per_worker` GPUs. 0: one after another in this process. On a cluster at
        `address`, its size is the limit.
    """

def teachers(
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    run_dir: str | Path = ...,
    seed: int = ...,
    workers: int = ...,
    min_workers: int | None = ...,
    gpus_per_worker: float = ...,
    address: str | Path | None = ...,
    console: Literal["rich", "plain", "quiet"] | None = ...,
    tracking: _Tracking = ...,
    init: str | Path = ...,
    data: _FinetuneData = ...,
    encoder: _MultitaskEncoder = ...,
    optimizer: _Optimizer = ...,
    training: _Training = ...,
    calibrate: bool = ...,
    init_weights: Literal["all", "encoder", "none"] = ...,
    label_map: Mapping[str, str | Path | Mapping[str, str | Path]] = ...,
    student: _Student = ...,
    num_teachers: int = ...,
    num_folds: int = ...,
    max_concurrent: int = ...,
) -> Run:
    """Fine-tune teachers with different seeds for `road distill`. `teachers.json` lists them.

    >>> import road_ray as rr
    >>> run = rr.teachers(
    ...     init="runs/encoder", run_dir="runs/teachers", training={"steps": 2},
    ...     num_teachers=2, data={"root": "miniature", "dataset": "sst2", "max_judged_rows": 16},
    ... )

    Args:
        run_dir: Directory of the teachers, one sub-directory each, and of `teachers.json`,
        which `distillation.teachers` accepts.
        seed: Random seed of new weights, order of batches, masking, dropout and drawn data
        sets. Change it to repeat a run.
        workers: Number of Ray Train workers that share each batch. 0: train in this process.
        min_workers: Smallest number of workers to train with while machines are missing; the
        group grows back to `workers`. None: wait until all workers have a place. Set it for
        preemptible machines.
        gpus_per_worker: Number of GPUs of each worker or parallel task. 0: CPU only, except
        that a run without workers uses the GPU of this machine. A fraction lets parallel
        tasks share a device; workers of one run cannot, because NCCL takes one for each GPU.
        address: Address of a running Ray cluster, such as `10.0.0.1:6379`. None: the cluster
        of the environment variable `RAY_ADDRESS` or of the surrounding Ray job, else a local
        one that ends with the run.
        console: Progress on standard error. `plain`: a line for the first and the last row,
        for evaluations and every ten seconds. `quiet`: nothing. None, and `rich` of earlier
        versions: `plain`.
        tracking: Experiment trackers besides `metrics.jsonl`. By default there are none.
        init: Model to start from: a run directory, an `hf/` directory or a hub name.
        Required.
        data: Data set to train on, data sets to evaluate on, row length and batch size.
        encoder: Attention implementation of the model that is trained.
        optimizer: Optimizer and learning-rate schedule. The defaults are those of ELECTRA-
        Small: peak rate 3e-4, layer decay 0.8, no weight decay (Clark et al. 2020, table 7).
        Base: 1e-4 and 0.8; Large: 5e-5 and 0.9. Models of other families: 2e-5 to 5e-5 and 1
        (Devlin et al. 2019).
        training: Length of the training, evaluations and checkpoints.
        calibrate: Fit a temperature on the dev split of each task of classes, several labels
        or choices (Guo et al. 2017) and store it with the model. `road predict`, `road serve`
        and `road_ray.load` divide the logits by it; the weights, so the probabilities of
        plain transformers, stay as they are. False: none.
        init_weights: Weights of `init` to start from. `all`: also its head, where it was
        trained on the same task, for example by `road multitask`. `encoder`: with a new head.
        `none`: random weights with the size and tokenizer of `init`, the baseline that shows
        what pre-training gains.
        label_map: Label names of the head of `init`, where it is kept, mapped to those of the
        task, such as `{LABEL_0: negative}`. Empty: the names are equal but for case, spaces
        and hyphens.
        student: Layers of `init` that are kept, for a smaller model.
        num_teachers: Number of teachers, of each fold where there are folds; seeds are
        `seed`, `seed` + 1 and so on. ROaD distils from three.
        num_folds: Number of folds of the training data. 1: every teacher trains on all of it.
        2 or more: `num_teachers` are trained for each fold, without that fold, and a student
        learns every row from teachers that have not seen it. Use it where teachers are nearly
        always right on their own training data.
        max_concurrent: Number of teachers that train at the same time, each a Ray task of one
        core and `gpus_per_worker` GPUs. 0: one after another in this process. On a cluster at
        `address`, its size is the limit.
    """

def distill(
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    run_dir: str | Path = ...,
    seed: int = ...,
    workers: int = ...,
    min_workers: int | None = ...,
    gpus_per_worker: float = ...,
    address: str | Path | None = ...,
    console: Literal["rich", "plain", "quiet"] | None = ...,
    tracking: _Tracking = ...,
    init: str | Path = ...,
    data: _DistillData = ...,
    encoder: _MultitaskEncoder = ...,
    optimizer: _Optimizer = ...,
    training: _Training = ...,
    calibrate: bool = ...,
    init_weights: Literal["all", "encoder", "none"] = ...,
    label_map: Mapping[str, str | Path | Mapping[str, str | Path]] = ...,
    student: str | Path = ...,
    distillation: _DistillDistillation = ...,
    weighting: _Weighting = ...,
    task: str | Path = ...,
    teachers: Sequence[str | Path] | Ensemble | str | Path = ...,
    num_teachers: int | None = ...,
    host: Literal["actors", "process"] = ...,
    lookahead: int = ...,
    temperature: float = ...,
    kd_weight: float = ...,
    schedule: Literal["constant", "linear"] | Sequence[Sequence[float]] = ...,
    average_loss: bool = ...,
    generations: int = ...,
    rule: Literal[
        None,
        "mean",
        "correctness",
        "correct_only",
        "confidence",
        "entropy",
        "mean_probabilities",
        "probability_shift",
    ]
    | str
    | Path = ...,
    wrong: float = ...,
    all_wrong: Literal["scale", "mean", "drop"] = ...,
    span_correctness: Literal["independent", "joint"] = ...,
) -> Run:
    """Train a student on the answers of an ensemble of teachers.

    >>> import road_ray as rr
    >>> run = rr.distill(
    ...     student="runs/encoder", task="sst2", run_dir="runs/student",
    ...     teachers="runs/teachers/teachers.json", host="process", training={"steps": 2},
    ...     data={"root": "miniature", "max_judged_rows": 16},
    ... )

    Args:
        run_dir: Directory of the run: configuration, metrics, checkpoints and final model.
        The same command on the same directory resumes the run.
        seed: Random seed of new weights, order of batches, masking, dropout and drawn data
        sets. Change it to repeat a run.
        workers: Number of Ray Train workers that share each batch. 0: train in this process.
        min_workers: Smallest number of workers to train with while machines are missing; the
        group grows back to `workers`. None: wait until all workers have a place. Set it for
        preemptible machines.
        gpus_per_worker: Number of GPUs of each worker or parallel task. 0: CPU only, except
        that a run without workers uses the GPU of this machine. A fraction lets parallel
        tasks share a device; workers of one run cannot, because NCCL takes one for each GPU.
        address: Address of a running Ray cluster, such as `10.0.0.1:6379`. None: the cluster
        of the environment variable `RAY_ADDRESS` or of the surrounding Ray job, else a local
        one that ends with the run.
        console: Progress on standard error. `plain`: a line for the first and the last row,
        for evaluations and every ten seconds. `quiet`: nothing. None, and `rich` of earlier
        versions: `plain`.
        tracking: Experiment trackers besides `metrics.jsonl`. By default there are none.
        init: Model to start from: a run directory, an `hf/` directory or a hub name.
        Required.
        data: Data set to train on, rows without labels, data sets to evaluate on, row length
        and batch size.
        encoder: Attention implementation of the model that is trained.
        optimizer: Optimizer and learning-rate schedule. The defaults are those of ELECTRA-
        Small: peak rate 3e-4, layer decay 0.8, no weight decay (Clark et al. 2020, table 7).
        Base: 1e-4 and 0.8; Large: 5e-5 and 0.9. Models of other families: 2e-5 to 5e-5 and 1
        (Devlin et al. 2019).
        training: Length of the training, evaluations and checkpoints.
        calibrate: Fit a temperature on the dev split of each task of classes, several labels
        or choices (Guo et al. 2017) and store it with the model. `road predict`, `road serve`
        and `road_ray.load` divide the logits by it; the weights, so the probabilities of
        plain transformers, stay as they are. False: none.
        init_weights: Weights of `init` to start from. `all`: also its head, where it was
        trained on the same task, for example by `road multitask`. `encoder`: with a new head.
        `none`: random weights with the size and tokenizer of `init`, the baseline that shows
        what pre-training gains.
        label_map: Label names of the head of `init`, where it is kept, mapped to those of the
        task, such as `{LABEL_0: negative}`. Empty: the names are equal but for case, spaces
        and hyphens.
        student: Model to start from: a run directory, an `hf/` directory or a hub name.
        Required.
        distillation: Teachers, distillation loss and hosts of the teachers.
        weighting: Weights of the teachers in their mean.
        task: Data set to train on, of the catalogue (`road data list`) or of `data.sets`.
        teachers: Teachers: model or run directories, hub names, files of answers (CSV, TSV,
        JSONL or Parquet, such as `road predict` writes), or one `teachers.json` of `road
        teachers`, which may have files beside it. Required.
        num_teachers: Number of teachers that each row must have, files among them, so that a
        forgotten one is an error; in a mixture of every data set, where one without teachers
        then needs the entry `[]`. None: as many as `distillation.teachers` names. ROaD
        distils from three.
        host: Place of the teachers. `actors`: Ray actors, which several workers and runs can
        use. `process`: in every training process, which needs no Ray but the memory for all
        teachers.
        lookahead: Number of batches that are sent to the teachers ahead of the student's
        step. 0: student and teachers take turns. More hides more of the teachers' time and
        takes memory. Our choice.
        temperature: Temperature T of teacher and student logits in the distillation loss. The
        factor T^2 keeps the size of the gradient (Hinton et al. 2015). Larger values weigh
        unlikely classes more. ROaD tunes it without printing it; 2 is our choice.
        kd_weight: Weight of the distillation loss, from 0 to 1; the label loss gets the rest:
        (1 - kd_weight) * CE + kd_weight * T^2 * KL. 0: labels only. 1: teachers only. ROaD
        does not print its value; 0.5 is our choice.
        schedule: Course of `distillation.kd_weight` over the training. `constant`: unchanged.
        `linear`: from 1 to 0, regardless of its value (teacher annealing, Clark et al. 2019).
        Or points [fraction of training, kd_weight], joined by straight lines.
        average_loss: Average the losses to each teacher, weighted by `weighting.rule`. False:
        one loss to the weighted mean of the teachers' logits, as in ROaD.
        generations: Number of born-again generations (Furlanello et al. 2018): each student
        is the only teacher of the next. 1: one student. ROaD found no gain from more.
        rule: Weighting rule. None: `correctness` for several teachers; `mean` for one, which
        is plain knowledge distillation. `mean`: equal weights. `correctness`: ROaD's
        Algorithm 2. `correct_only`: correct teachers only. `confidence`: by the probability
        of the label (CA-MKD). `entropy`: by certainty (EBKD). `mean_probabilities`: mean of
        probabilities (MT-DNN-KD). `probability_shift`: mean, whose top logit is swapped with
        the label's where it errs (TextBrewer). Or a function of your own,
        `package.module:name`.
        wrong: Weight W of a teacher that errs on an example, from 0 to 1; correct teachers
        share the rest. 1 is the plain mean. 0.75 is ROaD's typical value (part 1, Algorithm
        2).
        all_wrong: Weights where all teachers err. `scale`: `weighting.wrong` each, as
        Algorithm 2 reads. `mean`: 1 each. `drop`: 0 each, so that the example learns from its
        label only. The paper leaves the case open; `scale` is our choice.
        span_correctness: Correctness of an answer span, or of a row with several labels.
        `independent`: start and end, or each label, are weighted separately. `joint`: a
        teacher is correct if both, or all labels, are. The paper leaves it open;
        `independent` is our choice.
    """

def evaluate(
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    run_dir: str | Path = ...,
    seed: int = ...,
    workers: int = ...,
    min_workers: int | None = ...,
    gpus_per_worker: float = ...,
    address: str | Path | None = ...,
    console: Literal["rich", "plain", "quiet"] | None = ...,
    tracking: _Tracking = ...,
    init: str | Path = ...,
    tune_threshold_on: str | Path | None = ...,
    label_map: Mapping[str, str | Path | Mapping[str, str | Path]] = ...,
    data: _EvaluateData = ...,
) -> Run:
    """Evaluate a trained model on the data set of its training, on a labelled file of the same
    columns, or on other data sets.

    >>> import road_ray as rr
    >>> run = rr.evaluate(
    ...     init="runs/student", run_dir="runs/evaluated",
    ... )

    Args:
        run_dir: Directory of the metrics and predictions. `{name}` stands for the model and a
        digest of the keys that decide the result, so that each evaluation has a directory of
        its own. An evaluation is repeated only when a file that it read has changed.
        seed: Random seed of new weights, order of batches, masking, dropout and drawn data
        sets. Change it to repeat a run.
        workers: Number of Ray Train workers that share each batch. 0: train in this process.
        min_workers: Smallest number of workers to train with while machines are missing; the
        group grows back to `workers`. None: wait until all workers have a place. Set it for
        preemptible machines.
        gpus_per_worker: Number of GPUs of each worker or parallel task. 0: CPU only, except
        that a run without workers uses the GPU of this machine. A fraction lets parallel
        tasks share a device; workers of one run cannot, because NCCL takes one for each GPU.
        address: Address of a running Ray cluster, such as `10.0.0.1:6379`. None: the cluster
        of the environment variable `RAY_ADDRESS` or of the surrounding Ray job, else a local
        one that ends with the run.
        console: Progress on standard error. `plain`: a line for the first and the last row,
        for evaluations and every ten seconds. `quiet`: nothing. None, and `rich` of earlier
        versions: `plain`.
        tracking: Experiment trackers besides `metrics.jsonl`. By default there are none.
        init: Model to evaluate: a run directory, an `hf/` directory or a hub name, with a
        trained head. A `teachers.json` evaluates the mean of the teachers' logits, as
        `eval/<data set>/ensemble_<metric>`. Required.
        tune_threshold_on: Data set of `data.datasets` on which the no-answer threshold, or
        that of each of several labels, is tuned, for all of them; its own `at_threshold_*`
        metrics are then optimistic. None: the threshold that is stored with the model; a
        model without one gets no `at_threshold_*` metrics.
        label_map: Label names of the model's head mapped to those of the task, such as
        `{LABEL_0: negative}`. Empty: the names are equal but for case, spaces and hyphens.
        data: Data sets, split and row length of the evaluation. What is not given here is
        that of the training, which the run or the model records: data set, files, columns,
        heads and windows.
    """

def reproduce(
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    run_dir: str | Path = ...,
    seed: int = ...,
    workers: int = ...,
    min_workers: int | None = ...,
    gpus_per_worker: float = ...,
    address: str | Path | None = ...,
    console: Literal["rich", "plain", "quiet"] | None = ...,
    tracking: _Tracking = ...,
    comparison: Literal[
        "algorithms",
        "compression",
        "domain",
        "fractions",
        "generator_size",
        "low_resource",
        "noisy_labels",
        "road_distillation",
        "road_multitask",
        "soup",
        "successors",
        "table5",
        "tying",
        "own",
    ] = ...,
    experiment: _Experiment = ...,
    num_seeds: int = ...,
    arms: Sequence[str | Path] = ...,
    max_concurrent: int = ...,
    init: str | Path = ...,
    data: _DistillData = ...,
    targets: Mapping[str, Mapping[str, Any]] | None = ...,
    optimizer: _Optimizer = ...,
    training: _Training = ...,
    student: _Student = ...,
    distillation: _DistillDistillation = ...,
    weighting: _Weighting = ...,
    multitask: _Multitask = ...,
    pretrain: _Pretrain = ...,
    flops: float = ...,
) -> Run:
    """Repeat a published comparison with your model and data.

    >>> import road_ray as rr
    >>> run = rr.reproduce(
    ...     init="runs/encoder", run_dir="runs/rates", training={"steps": 2},
    ...     experiment={"arms": {"slow": {"keys": {"optimizer.peak_lr": 1e-5}}, "fast": {}}},
    ...     data={"root": "miniature", "dataset": "sst2", "max_judged_rows": 16}, num_seeds=2,
    ... )

    Args:
        run_dir: Directory of all arms, of `table.json`, of the report and of the metrics.
        seed: Random seed of new weights, order of batches, masking, dropout and drawn data
        sets. Change it to repeat a run.
        workers: Number of Ray Train workers that share each batch. 0: train in this process.
        min_workers: Smallest number of workers to train with while machines are missing; the
        group grows back to `workers`. None: wait until all workers have a place. Set it for
        preemptible machines.
        gpus_per_worker: Number of GPUs of each worker or parallel task. 0: CPU only, except
        that a run without workers uses the GPU of this machine. A fraction lets parallel
        tasks share a device; workers of one run cannot, because NCCL takes one for each GPU.
        address: Address of a running Ray cluster, such as `10.0.0.1:6379`. None: the cluster
        of the environment variable `RAY_ADDRESS` or of the surrounding Ray job, else a local
        one that ends with the run.
        console: Progress on standard error. `plain`: a line for the first and the last row,
        for evaluations and every ten seconds. `quiet`: nothing. None, and `rich` of earlier
        versions: `plain`.
        tracking: Experiment trackers besides `metrics.jsonl`. By default there are none.
        comparison: Comparison to repeat. Of pre-training: `table5`, `generator_size`,
        `tying`, `algorithms`, `fractions` (Clark et al. 2020) and `successors`. From any
        `init`: `road_distillation` and `road_multitask` (ROaD's tables), `compression`,
        `low_resource`, `noisy_labels`, `domain`, `soup`. `own`: the arms of `experiment`
        alone.
        experiment: Arms of an experiment of one's own, as docs/guides/comparisons.md
        describes them. They follow those of `comparison` where both are given.
        num_seeds: Number of runs of each arm, with seeds `seed`, `seed` + 1 and so on,
        compared in pairs. Our choice; a small difference needs 5 to 10.
        arms: Arms to run, with those that they are tested against. Empty: all arms of the
        comparison.
        max_concurrent: Number of arms that run at the same time, each a Ray task of one core
        and `gpus_per_worker` GPUs. 0: one after another in this process.
        init: Model that every arm and teacher starts from: a run directory, an `hf/`
        directory or a hub name. Required but for comparisons of pre-training, which take
        none.
        data: Data set that all arms train on, rows without labels, row length and batch size.
        An empty `data.dataset` means `targets` of the comparison.
        targets: Data sets that every arm is fine-tuned on in turn, each with the keys in
        which it differs, such as `{rte: {data.epochs: 10}}`. None: `data.dataset`, else those
        of the comparison. An arm of a comparison of pre-training has the mean of their first
        metrics times 100 as its score, like the GLUE score.
        optimizer: Optimizer and learning-rate schedule of fine-tuning and of teachers. The
        defaults are those of `road finetune`.
        training: Length of each fine-tuning, and its checkpoints.
        student: Layers of `init` that students keep; teachers keep all. `compression` sets
        `student.layers` itself.
        distillation: Distillation loss and hosts of the teachers. The comparison trains the
        teachers and keeps their answers in a store below `run_dir`. Only of comparisons with
        teachers.
        weighting: Options of the weighting rules; arms choose the rule. Only of comparisons
        with teachers.
        multitask: Multi-task stages of the arms, such as those of `road_multitask`; arms
        change `mixing` and the teachers.
        pretrain: Pre-training stages of the arms. Of comparisons at equal cost, the number of
        steps and the warm-up, a tenth of them, follow from `flops`. Of others, every stage
        starts from `init`, and an empty `data.corpus` is the text of all training rows of the
        first target.
        flops: Budget of the pre-training of each arm, in floating-point operations as the
        paper counts them. Comparisons at equal steps take the steps that it buys the first
        arm. Our choice for a laptop; ELECTRA-Small has 1.3e18. Only of comparisons of pre-
        training.
    """

def demo(
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    run_dir: str | Path = ...,
    seed: int = ...,
    workers: int = ...,
    min_workers: int | None = ...,
    gpus_per_worker: float = ...,
    address: str | Path | None = ...,
    console: Literal["rich", "plain", "quiet"] | None = ...,
    tracking: _Tracking = ...,
    num_teachers: int = ...,
    num_seeds: int = ...,
    max_concurrent: int = ...,
) -> Run:
    """Run all stages at miniature scale, in a few minutes.

    >>> import road_ray as rr
    >>> run = rr.demo(
    ...     run_dir="runs/demo",  # doctest: +SKIP
    ... )

    Args:
        run_dir: Directory of all runs of the demo, of `table.json` and of `report.html`.
        seed: Random seed of new weights, order of batches, masking, dropout and drawn data
        sets. Change it to repeat a run.
        workers: Number of Ray Train workers that share each batch. 0: train in this process.
        min_workers: Smallest number of workers to train with while machines are missing; the
        group grows back to `workers`. None: wait until all workers have a place. Set it for
        preemptible machines.
        gpus_per_worker: Number of GPUs of each worker or parallel task. 0: CPU only, except
        that a run without workers uses the GPU of this machine. A fraction lets parallel
        tasks share a device; workers of one run cannot, because NCCL takes one for each GPU.
        address: Address of a running Ray cluster, such as `10.0.0.1:6379`. None: the cluster
        of the environment variable `RAY_ADDRESS` or of the surrounding Ray job, else a local
        one that ends with the run.
        console: Progress on standard error. `plain`: a line for the first and the last row,
        for evaluations and every ten seconds. `quiet`: nothing. None, and `rich` of earlier
        versions: `plain`.
        tracking: Experiment trackers besides `metrics.jsonl`. By default there are none.
        num_teachers: Number of teachers. ROaD distils from three.
        num_seeds: Number of students of each kind (no, plain and weighted distillation, all
        labels), each with its own seed.
        max_concurrent: Number of teachers or students that train at the same time, one core
        each.
    """
