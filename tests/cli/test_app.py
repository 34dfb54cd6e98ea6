"""The command: quick help, exit codes, what is printed where; never a traceback for a mistake."""

import importlib
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import pytest
from ruamel.yaml import YAML

from road_ray import errors
from road_ray.recipes.run_directory.run import Run
from road_ray.verbs import VERBS, configure


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_help_of_a_verb_has_its_own_example_and_directory(road, verb):
    example = configure(verb.name, overrides=[verb.example])
    told = " ".join(road(verb.name, "--help").out.split())
    assert f"overrides such as {verb.example}" in told
    assert f"directory of the run; default {example.run_dir}" in told


CODES = {"RoadError": 1, "ConfigError": 2, "DataError": 3, "ResourceError": 4, "ClusterError": 4}
CODES |= {"CheckpointError": 4, "DivergedError": 5, "InterruptedRunError": 6}


@pytest.mark.parametrize("name", [n for n, k in vars(errors).items() if hasattr(k, "exit_code")])
def test_every_error_of_ours_is_a_message_and_its_exit_code(road, recipe, name):
    kind = getattr(errors, name)
    recipe(Mock(side_effect=kind("what is wrong\n  fix: this")))
    result = road("finetune")
    assert result.code == CODES[name]
    message = f"error[{kind.kind}] what is wrong\n  fix: this\n"
    message += "  command: road finetune\n" if kind is errors.InterruptedRunError else ""
    assert result.err == message
    assert result.out == ""


def test_what_the_hub_says_is_left_to_its_own_handler(road, monkeypatch):
    hub = logging.getLogger("huggingface_hub")
    monkeypatch.setattr(hub, "propagate", True)
    road("--version")
    assert not hub.propagate, "ours would say it a second time"


def test_who_asks_for_more_gets_the_traceback_without_secrets(road, recipe):
    error = errors.ResourceError("what is wrong")
    error.__cause__ = OSError("s3://key:hunter2@host/bucket refused")
    recipe(Mock(side_effect=error))
    result = road("finetune", "-v").refused(4, "Traceback", "OSError: s3://")
    assert "hunter2" not in result.err
    assert result.err.endswith("error[RESOURCE] what is wrong\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_outside_the_loop_is_resumable(road, recipe, number):
    def stopped(config: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(5)

    recipe(stopped)
    before = signal.getsignal(signal.SIGTERM)
    result = road("finetune", "--run-dir", "some/where").refused(6, "run the same command")
    assert result.err.endswith("  command: road finetune --run-dir some/where\n")
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_stop_while_modules_load_has_no_traceback(monkeypatch):
    application = ModuleType("app")
    application.__getattr__ = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setitem(sys.modules, "road_ray.cli.app", application)
    with pytest.raises(SystemExit, match="6"):
        importlib.reload(sys.modules["road_ray.cli"])


def test_flags_go_over_overrides_and_json_silences_progress(road, recipe, tmp_path):
    recipe(seen := Mock(side_effect=lambda config: Run(config.run_dir, {"eval/a/f1": 50.0})))
    file = tmp_path / "a.yaml"
    file.write_text("seed: 1\ninit: x\n")
    flags = ("--seed", 3, "--workers", 2, "--gpus-per-worker", 0.5, "--address", "ray://h:1")
    result = road(
        "finetune", file, "seed=2", "data.epochs=1", *flags, "--run-dir", tmp_path, "--json"
    ).good()
    assert json.loads(result.out) == {"directory": str(tmp_path), "metrics": {"eval/a/f1": 50.0}}
    (config,) = seen.call_args.args
    assert (config.seed, config.init, config.data.epochs) == (3, "x", 1.0)
    assert (config.workers, config.gpus_per_worker, config.address) == (2, 0.5, "ray://h:1")
    assert config.console == "quiet"
    road("finetune", "--preset", "squad_v2_small", "-q")
    (config,) = seen.call_args.args
    assert (config.console, config.data.dataset) == ("quiet", "squad_v2")


def test_a_finished_verb_prints_figures_and_places(road, recipe, tmp_path):
    (tmp_path / "hf").mkdir()
    recipe(lambda config: Run(tmp_path, {"eval/a/f1": 50.0, "eval/a/total": 3}))
    out = road("finetune").out
    assert "eval/a/f1  50.00" in out
    assert "total" not in out
    last = f"run: {tmp_path}   model: {tmp_path / 'hf'}\nnext: road predict {tmp_path} FILE\n"
    assert out.endswith(last)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_ends_with_the_next_command(road, recipe, tmp_path, verb):
    place = tmp_path / "a run"
    (place / "hf").mkdir(parents=True)
    recipe(lambda config: Run(place, {"eval/a/f1": 50.0}))
    *_, last = road(verb).out.splitlines()
    label, _, command = last.partition(" ")
    words = shlex.split(command)
    assert (label, words[0]) == ("next:", "road")
    assert words[1] in {*VERBS, "predict", "runs", "init"}
    assert verb == "demo" or any(str(place) in word for word in words)  # quoted, with its space


def test_the_command_after_teachers_has_the_data_that_they_were_trained_on(road, recipe, tmp_path):
    recipe(lambda config: Run(tmp_path, {}))
    (tmp_path / "films.yaml").write_text("init: x\ndata: {dataset: sst2}\n")
    for words, expected in (
        ((tmp_path / "films.yaml", "num_teachers=2"), f"road distill {tmp_path / 'films.yaml'} "),
        (("data.dataset=sst2", "init=x"), "road distill data.dataset=sst2 init=x "),
        ((tmp_path / "films.yaml", "init=y"), f"road distill {tmp_path / 'films.yaml'} init=y "),
        ((), "road distill init=MODEL "),
    ):
        *_, last = road("teachers", *words).out.splitlines()
        assert last.startswith(f"next: {expected}distillation.teachers={tmp_path}/teachers.json")


def test_a_warning_is_shown_once():
    code = (
        "import logging\nfrom road_ray.cli import app\n"
        "def command(prog_name, log=logging.getLogger('road_ray.x')):\n"
        "    log.info('low')\n"
        "    for _ in range(3):\n"
        "        log.warning('low'), log.info('step')\n"
        "app.app = command\napp.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "low\nwarning: low\nstep\nstep\nstep\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nope",), "No such command 'nope'"),
        (("reproduce", "--sead", "1"), "No such option: --sead"),
        *((("sweep", *words), "one of: ") for words in ((), ("trials=2",))),
        (("finetune", "--preset", "electra_smll"), "allowed for `road finetune`: glue, "),
        (("finetune", "--seed", "x"), "Invalid value for '--seed'"),
        (("finetune", "--seed", "-1"), "seed = -1"),
        (("finetune", "no.yaml"), "no.yaml  no such file"),
        (("evaluate", "init=x", "data.datasets=zzz"), "define it under data.sets, or choose"),
        (("finetune", "data.root=x", "no.yaml"), "override 'no.yaml'  has no '='"),
        (("finetune", "--preset", "electra_small"), "road pretrain --preset electra_small"),
        (("evaluate", "data.split=validation"), 'allowed: "dev" or "test"'),
        (("finetune", "learning_rate=1"), "did you mean 'optimizer.peak_lr'"),
        (("explain", "learning_rate"), "fix: road explain optimizer.peak_lr"),
        (("explain", "zzzqq"), "no such configuration key"),
        (("explain", "seed", "nonsense"), "'nonsense' has no configuration"),
        (("submit", "--cluster", "asw", "list"), "did you mean 'aws'"),
        (("submit", "--cluster", ".", "list"), "no shipped cluster"),
        (("submit", "nope", "x"), "no such verb"),
        (("submit", "stop"), "name one run or job"),
        (("plan", "my.yaml", "seed=1"), "'my.yaml' is not one of 'pretrain', "),
        (("demo", "--dry-run"), "road demo has no plan"),
        (("finetune", "init=x", "--run-dir", ""), 'run_dir = ""\n    allowed: a path'),
        (("predict", "~nosuchuser/run", __file__), "~NAME"),
        (("predict", "run", str(Path(__file__).parent)), "is a folder"),
        (("presets", "nope"), "unknown preset 'nope'"),
        (("schema", "finetun"), "did you mean 'finetune'?"),
        (("data",), "Usage"),
    ],
)
def test_usage_is_exit_code_two(road, arguments, message):
    result = road(*arguments)
    assert (result.code, message in result.err + result.out) == (2, True), result.err


def test_a_locale_without_utf8_shows_runs(tmp_path, pretrained):
    run = tmp_path / "été"
    shutil.copytree(pretrained.directory, run, ignore=shutil.ignore_patterns("checkpoints"))
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    def road(*words):
        command = [sys.executable, "-m", "road_ray", *map(str, words)]
        done = subprocess.run(command, env=plain, capture_output=True, timeout=120)
        assert b"Traceback" not in done.stderr
        return done

    listed = road("runs", "list", tmp_path)
    assert listed.returncode == 0
    assert rb"\udcc3\udca9t\udcc3\udca9  pretrain" in listed.stdout
    assert road("report", run).returncode == 0
    assert (run / "report.html").is_file()


@pytest.mark.parametrize("words", [["report", "{}"], ["sweep", "{}"], ["finetune", "init={}"]])
def test_a_name_too_long_for_a_file_is_told_without_a_traceback(road, words):
    result = road(*(word.format("x" * 5000) for word in words))
    assert result.code in (2, 4), result.err
    assert len(result.err) < 2000


def test_a_cluster_that_is_not_there_is_a_cluster_error(road):
    road("submit", "--cluster", "http://127.0.0.1:9", "list").refused(4, "127.0.0.1:9", "fix:")


def test_jobs_are_listed_as_json_where_the_option_stands_behind_the_action(road, monkeypatch):
    from road_ray.distributed import job_client

    listed = SimpleNamespace(list=list)
    monkeypatch.setattr(job_client, "Jobs", lambda profile, *, accept_open: listed)
    assert json.loads(road("submit", "list", "--json").good().out) == []


@pytest.mark.parametrize("name", ["local", "clusters/aws.yaml", "kuberay/raycluster"])
def test_a_shipped_cluster_file_is_printed(road, name):
    result = road("submit", "--cluster", name, "show").good()
    (file, profile) = [Path(line.removeprefix("# ")) for line in result.err.splitlines()]
    assert result.out == file.read_text()
    assert profile.name.endswith(".profile.yaml")
    assert YAML(typ="safe").load(result.out)
