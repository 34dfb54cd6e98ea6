"""The other examples from Python: one function for each file, by its name.

python examples/from_python.py own_squad
"""

import sys

import road_ray as rr

SMALL = {"init": "google/electra-small-discriminator"}


def own_squad(**keys: object) -> object:
    """Answer a question about a text of one's own."""
    place = {"run_dir": "runs/manuals"}
    run = rr.finetune("examples/own_squad.yaml", overrides={**SMALL, **place, **keys})
    context = "Fill the kettle to the line. It switches off when the water boils."
    return rr.load(run.directory)(question="When does it switch off?", context=context)["answer"]


def tags(**keys: object) -> object:
    """Find names in a sentence."""
    run = rr.finetune("examples/tags.yaml", overrides={**SMALL, "run_dir": "runs/names", **keys})
    return rr.load(run.directory)("Ada met Charles in London.")["entities"]


def regression(**keys: object) -> object:
    """Rate how similar two sentences are."""
    place = {"run_dir": "runs/similarity"}
    run = rr.finetune("examples/regression.yaml", overrides={**SMALL, **place, **keys})
    return rr.load(run.directory)(text="A cat sleeps.", text_pair="A cat is asleep.")["value"]


def published_teachers(**keys: object) -> object:
    """Distil three published models; return the student's figures."""
    place = {"run_dir": "runs/student"}
    return rr.distill("examples/published_teachers.yaml", overrides={**place, **keys}).metrics


def unlabelled(**keys: object) -> object:
    """Train teachers on the labelled rows, and a student on all; return the student's figures."""
    base = {"init": "google/electra-base-discriminator", "run_dir": "runs/teachers"}
    rr.teachers("examples/own_csv_teachers.yaml", overrides={**base, **keys})
    place = {"run_dir": "runs/taught"}
    return rr.distill("examples/unlabelled.yaml", overrides={**SMALL, **place, **keys}).metrics


def domain_pretraining(**keys: object) -> object:
    """Go on pre-training on a text, then fine-tune; return the figures."""
    rr.pretrain("examples/domain_pretraining.yaml", overrides={"run_dir": "runs/domain", **keys})
    place = {"init": "runs/domain", "run_dir": "runs/mine"}
    return rr.finetune("examples/own_csv.yaml", overrides={**place, **keys}).metrics


def sweep(**keys: object) -> object:
    """Search two keys; return the best trial."""
    return rr.sweep("examples/sweep.yaml", overrides={**SMALL, **keys}).best


if __name__ == "__main__":
    print(globals()[sys.argv[1]]())
