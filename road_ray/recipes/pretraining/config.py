"""Configuration of ``road pretrain``.

``PretrainConfig`` holds the generator and the objective beside corpus, encoder,
optimizer and loop; ``recipes/pretraining/build_objective.py`` makes the objective of it,
``pretrain.py`` trains and evaluates it. ``experiment/config.py`` has a comparison of several.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from road_ray.config import Config
from road_ray.data.config import CorpusConfig
from road_ray.models.config import EncoderConfig, Tying
from road_ray.objectives.pretraining.registry import OBJECTIVES
from road_ray.recipes.config import RunConfig
from road_ray.recipes.run_directory.input_files import Inputs, corpus_files, model_files
from road_ray.system.own_names import name_of
from road_ray.training.config import OptimizerConfig, TrainingConfig


class GeneratorConfig(Config):
    """Generator that corrupts the input of the main encoder. Source of the defaults: ELECTRA-Small,
    Clark et al. 2020, table 6 and section 3.2.
    """

    kind: Literal["model", "frozen", "uniform", "unigram"] = "model"
    """Source of the replacement tokens. ``model``: a masked language model that is trained jointly.
    ``frozen``: that of ``generator.init``, which is not trained and shares no weights: the second
    of two stages (Clark et al. 2020, section 3.3). ``uniform``: random tokens. ``unigram``: tokens
    by their frequency in the corpus. The last two ignore the context and learn nothing."""
    scale: float = Field(0.25, gt=0, le=1)
    """Size of the generator as a fraction of the main encoder: of width, inner width and number of
    heads. ELECTRA-Small and Large: 1/4, Base: 1/3. 1/4 to 1/2 works best (Clark et al. 2020, figure
    3)."""
    depth: float = Field(1.0, gt=0, le=1)
    """Number of layers of the generator as a fraction of those of the main encoder. 1 in ELECTRA,
    0.5 in TEAMS."""
    tying: Tying = "embeddings"
    """Weights that the generator shares with the main encoder. ``none``: none. ``embeddings``:
    token, position and type embeddings with their LayerNorm. ``all``: the whole encoder, which
    needs equal sizes. With equal sizes the GLUE scores are 83.6, 84.3 and 84.4 (Clark et al. 2020,
    section 3.2)."""
    init: str = ""
    """Masked language model of the generator's size to start from, such as the run directory of an
    ``mlm`` run. Empty: new weights. A trained generator gives the discriminator plausible
    replacements from the first step."""


class ObjectiveConfig(Config):
    """Pre-training objective and its options. An option of null takes the objective's own default,
    from its paper; an option that the objective does not have is refused.
    """

    name: Annotated[str, name_of("objective", OBJECTIVES)] = Field(
        "electra", json_schema_extra={"anyOf": [{"enum": list(OBJECTIVES)}, {"type": "string"}]}
    )
    """Pre-training objective. ``electra``: detection of replaced tokens. ``electra_masked``:
    detection at chosen positions only. ``replace_mlm`` and ``all_tokens_mlm``: the intermediate
    models of Clark et al. 2020, section 3.5. ``mlm``: BERT without next-sentence prediction.
    ``mc_bert``, ``teams``: successors. ``adversarial``: ELECTRA with a generator trained by
    reinforcement. Or a class of your own, ``package.module:Class``."""
    choose_fraction: float | None = Field(None, gt=0, lt=1)
    """Fraction of real tokens that are chosen for prediction and replacement. None: 0.15. Use 0.25
    for Large, whose generator is too accurate otherwise (Clark et al. 2020, table 6)."""
    discriminator_weight: float | None = Field(None, ge=0)
    """Weight lambda of the main encoder's loss beside the generator's. None: 50 for ELECTRA and its
    variants, because a binary loss is much smaller than one over the vocabulary; 50 for
    ``mc_bert``, 5 for ``teams``, 1 for ``replace_mlm`` and ``all_tokens_mlm``."""
    options: dict[str, bool | int | float] = Field({})
    """Further options. ``mask_fraction``: fraction of the chosen tokens that are replaced by [MASK]
    for the generator, while the rest stay unchanged (0.85 as in google-research/electra, 1 for
    ``mc_bert``). ``temperature`` of the generator's logits in sampling (1; Clark et al. 2020 report
    no gain from higher values). ``disallow_correct``: never sample the original token (false).
    Others are of one objective alone. ``teams``: ``candidates`` (5 for each position,
    with the original), ``selection_weight`` (2) of the multi-word selection loss and
    ``shared_layers`` (3), the lowest layers that generator and main encoder share, of one width, as
    in official/projects/teams of tensorflow/models. ``mc_bert``: ``candidates`` (10, with "none of
    the above"). ``adversarial``: ``generator_weight`` (1) of the policy-gradient loss. Empty: these
    defaults."""

    @field_validator("options")
    @classmethod
    def _in_range(cls, options: dict[str, bool | int | float]) -> dict[str, bool | int | float]:
        if not 0 <= options.get("mask_fraction", 1) <= 1:
            raise ValueError("mask_fraction\n    allowed: 0 <= value <= 1")
        if options.get("temperature", 1) <= 0:
            raise ValueError("temperature\n    allowed: value > 0")
        least = {"candidates": 2, "shared_layers": 0, "selection_weight": 0, "generator_weight": 0}
        for name in options.keys() & least:
            if options[name] < least[name]:
                raise ValueError(f"{name}\n    allowed: {least[name]} or more")
        return options


class PretrainConfig(RunConfig):
    """Pre-training of an encoder on a text corpus. Source of the defaults: ELECTRA-Small, Clark et
    al. 2020, table 6.
    """

    run_dir: Path = Path("runs/pretrain")
    """Directory of the run: configuration, metrics, checkpoints and final models. The same command
    on the same directory resumes the run."""
    init: str = ""
    """Encoder to start from: a run directory, an ``hf/`` directory or a hub name, of the size of
    ``encoder``. Its tokenizer is used unless ``data.tokenizer`` is given. Empty: new weights."""
    data: CorpusConfig = CorpusConfig()
    """Text, tokenizer, row length and batch size."""
    encoder: EncoderConfig = EncoderConfig()
    """Architecture and size of the main encoder, which fine-tuning later uses."""
    generator: GeneratorConfig = GeneratorConfig()
    """Generator that corrupts the input. Without effect for ``objective.name`` = ``mlm``."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """Pre-training objective and its options. ELECTRA by default."""
    optimizer: OptimizerConfig = OptimizerConfig(peak_lr=5e-4, warmup_steps=10_000)
    """Optimizer and learning-rate schedule. The defaults are those of ELECTRA-Small: peak rate
    5e-4, 10,000 steps of warm-up (Clark et al. 2020, table 6). Base and Large: 2e-4."""
    training: TrainingConfig = TrainingConfig(steps=1_000_000)
    """Number of steps, evaluations and checkpoints. 1,000,000 steps as for ELECTRA-Small; Base has
    766,000, Large 400,000 (Clark et al. 2020, table 6)."""

    @model_validator(mode="after")
    def _evaluates_nothing(self) -> Self:
        training = self.training
        if (training.evaluate_every_steps, training.early_stopping.patience) != (None, None):
            raise ValueError(
                "training.evaluate_every_steps, early_stopping: a pre-training evaluates nothing\n"
                "    fix: leave them out; road finetune init=RUN/checkpoints/step-N evaluates one"
            )
        return self

    def inputs(self) -> Inputs:
        return {
            "init": [*model_files(self.init), *model_files(self.generator.init)],
            "data": corpus_files(self.data),
        }
