"""Shipped cluster files, validated against their schemas without a cloud."""

import copy
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from road_ray.distributed.job_client import SHIPPED, load_profile, shipped_clusters
from road_ray.distributed.room import SCALE_UP_VARIABLE
from road_ray.verbs import configure

LAUNCHER = ["local", "aws", "gcp"]


def loaded(name: str) -> dict[str, Any]:
    return yaml.safe_load((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8"))


def launcher_accepts(config: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(copy.deepcopy(config)))


@pytest.mark.parametrize("name", LAUNCHER)
def test_the_launcher_takes_the_file_and_every_ray_process_asks_for_the_token(name):
    config = loaded(name)
    launcher_accepts(config)
    starts = config["head_start_ray_commands"] + config["worker_start_ray_commands"]
    begun = [command for command in starts if "ray start" in command]
    assert len(begun) == 2
    assert all(command.startswith("RAY_AUTH_MODE=token ") for command in begun)
    assert "RAY_health_check_failure_threshold=4 ray start --head" in begun[0]
    assert "--dashboard-host=127.0.0.1" in begun[0]
    assert "--autoscaling-config=~/ray_bootstrap_config.yaml" in begun[0]
    # The launchers of clouds make a key of their own.
    assert ("ssh_private_key" in config["auth"]) == (name == "local")
    assert "chmod 600 ~/.ray/auth_token" in config["setup_commands"]
    assert config["file_mounts"] == {"~/.ray/auth_token": "~/.ray/auth_token"}


def host_commands(name: str) -> dict[str, list[str]]:
    """What every type of machine runs on the host before its container starts."""
    config = loaded(name)
    common = config["initialization_commands"]
    types = config.get("available_node_types", {"machine": {}})
    return {kind: node.get("initialization_commands", common) for kind, node in types.items()}


@pytest.mark.parametrize("name", LAUNCHER)
def test_run_directories_are_on_a_mounted_file_system(name):
    (mount,) = [o for o in loaded(name)["docker"]["run_options"] if "/runs" in o]
    place = re.fullmatch(r"--mount=type=bind,src=(\S+)/runs,dst=/runs", mount)[1]
    for kind, commands in host_commands(name).items():
        text = "\n".join(commands)
        assert ("until nvidia-smi" in text) == (name == "gcp" and kind.startswith("gpu"))
        assert text.count('test "$(id -u)" = 1000') == 1  # reads the token in the container
        assert (f"mountpoint -q {place} || sudo mount" in text) == (name != "local")
        for command in commands:
            assert subprocess.run(["bash", "-n", "-c", command], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "key"), [("aws", "IamInstanceProfile"), ("gcp", "serviceAccounts")]
)
def test_the_identity_of_workers_is_one_line_to_enable(name, key):
    text = (SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")
    config = yaml.safe_load(text.replace(f"# {key}:", f"{key}:"))
    launcher_accepts(config)
    nodes = config["available_node_types"]
    assert [node for node in nodes if key in nodes[node]["node_config"]] == ["gpu", "gpu_spot"]
    assert key not in str(loaded(name))


def worker_groups(name: str) -> list[dict[str, Any]]:
    """The groups of machines of a file of KubeRay."""
    spec = loaded(name).get("spec", {})
    return list(spec.get("rayClusterSpec", spec).get("workerGroupSpecs", []))


def teachers_room(name: str) -> dict[str, int]:
    """How many teacher actors each type of machine takes."""
    config = loaded(name)
    if "available_node_types" in config:
        nodes = config["available_node_types"].items()
        return {kind: node["resources"].get("teacher", 0) for kind, node in nodes}
    asked = {
        g["groupName"]: g["rayStartParams"].get("resources", '"{}"') for g in worker_groups(name)
    }
    return {kind: json.loads(json.loads(text)).get("teacher", 0) for kind, text in asked.items()}


@pytest.mark.parametrize("name", ["aws", "gcp", "kuberay/raycluster", "kuberay/rayjob"])
def test_teachers_have_room_on_machines_that_stay_only(name):
    room = teachers_room(name)
    assert {kind for kind, actors in room.items() if actors} == {
        "teacher" if "kuberay" in name else "gpu"
    }
    assert max(room.values()) > 1


def may_be_empty(name: str) -> bool:
    nodes = loaded(name).get("available_node_types", {})
    sizes = [group["minReplicas"] for group in worker_groups(name)]
    sizes += [node["min_workers"] for kind, node in nodes.items() if kind != "head"]
    return 0 in sizes


@pytest.mark.parametrize("name", shipped_clusters())
def test_jobs_wait_for_machines_where_there_may_be_none(name):
    profile = load_profile(name)
    assert (profile.scale_up_seconds >= 600) == may_be_empty(name)
    assert profile.driver_on_head


def test_the_job_of_kuberay_waits_for_machines_and_its_line_is_one_that_road_understands():
    assert may_be_empty("kuberay/rayjob")
    spec = loaded("kuberay/rayjob")["spec"]
    environment = yaml.safe_load(spec["runtimeEnvYAML"])["env_vars"]
    assert float(environment[SCALE_UP_VARIABLE]) >= 600
    assert json.loads(spec["entrypointResources"]) == {"node:__internal_head__": 0.001}
    words = shlex.split(spec["entrypoint"])
    assert words[:2] == ["road", "distill"]
    overrides = [word for word in words if "=" in word]
    preset = words[words.index("--preset") + 1]
    config: Any = configure("distill", preset=preset, overrides=overrides)
    assert config.distillation.resources == {"GPU": 1, "teacher": 1}


@pytest.mark.parametrize("name", ["aws", "gcp"])
def test_the_head_stays_and_spot_machines_are_watched(name):
    config = loaded(name)
    spot = {"aws": "InstanceMarketOptions", "gcp": "provisioningModel"}[name]
    nodes = config["available_node_types"]
    assert [node for node in nodes if spot in str(nodes[node])] == ["gpu_spot"]
    assert config["head_node_type"] == "head"
    assert any(
        f"distributed.train.preemption {name}" in c for c in config["worker_start_ray_commands"]
    )


def strict(schema: Any) -> Any:
    """The CRD's schema with unknown keys forbidden, as an API server with validation treats it."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tight = {key: strict(value) for key, value in schema.items()}
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(schema.get("properties"), dict) and not open_ended:
        tight.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        tight.pop("type", None)
    return tight


@pytest.fixture(scope="module")
def crd(real_data):
    def schema(plural: str) -> dict[str, Any]:
        path = real_data / "kuberay" / f"ray.io_{plural}.v1.7.0.yaml"
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        versions = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)["spec"]["versions"]
        (openapi,) = [v["schema"]["openAPIV3Schema"] for v in versions if v["name"] == "v1"]
        tight = strict(openapi)
        tight["properties"]["metadata"] = {"type": "object"}
        return tight

    return schema


@pytest.mark.parametrize(("name", "plural"), [("raycluster", "rayclusters"), ("rayjob", "rayjobs")])
def test_kuberay_takes_the_manifest_as_it_is(crd, name, plural):
    from jsonschema import Draft7Validator

    validator = Draft7Validator(crd(plural))
    manifest = loaded(f"kuberay/{name}")
    assert [error.message for error in validator.iter_errors(manifest)] == []
    cluster = manifest["spec"].get("rayClusterSpec", manifest["spec"])
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["networkPolicy"]["mode"].startswith("DenyAll")
    assert cluster["headGroupSpec"]["rayStartParams"]["num-gpus"] == "0"
    groups = worker_groups(f"kuberay/{name}")
    settings = {group["groupName"]: group["template"]["spec"] for group in groups}
    assert set(settings) == {"student", "teacher", "spot"}
    spot = settings["spot"]
    environment = {e["name"]: e["value"] for e in spot["containers"][0]["env"]}
    drained = int(environment["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"])
    assert drained < spot["terminationGracePeriodSeconds"]


def test_kuberay_takes_the_cluster_of_the_service_and_serve_its_application(crd, monkeypatch):
    from jsonschema import Draft7Validator
    from ray.serve.schema import ServeDeploySchema

    from road_ray.distributed.serving.deployment import application
    from road_ray.errors import ConfigError

    manifest = loaded("kuberay/rayservice")
    assert set(manifest["spec"]) == {"serveConfigV2", "rayClusterConfig"}
    cluster = manifest["spec"]["rayClusterConfig"]
    validator = Draft7Validator(crd("rayclusters")["properties"]["spec"])
    assert [error.message for error in validator.iter_errors(cluster)] == []
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["networkPolicy"]["mode"].startswith("DenyAll")
    (served,) = ServeDeploySchema(**yaml.safe_load(manifest["spec"]["serveConfigV2"])).applications
    module, name = served.import_path.split(":")
    assert (module, name) == (application.__module__, application.__name__)
    variable = served.args["token_env"]
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match=variable):  # no pod serves without the secret
        application(served.args)
    monkeypatch.setenv(variable, 32 * "x")
    application(served.args)
    with pytest.raises(ConfigError, match="token_env = None"):
        application({"model": "m"})
    with pytest.raises(ConfigError, match="replica"):
        application(served.args | {"replica": 2})
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for container in (group["template"]["spec"]["containers"][0] for group in groups):
        assert [entry["name"] for entry in container["env"]] == [variable]
        assert "secretKeyRef" in container["env"][0]["valueFrom"]
    room = sum(
        group["minReplicas"]
        * int(group["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"])
        for group in cluster["workerGroupSpecs"]
    )
    assert room >= served.args["replicas"] * served.args["cpus_per_replica"]


def test_the_image_has_the_versions_that_the_files_name():
    root = Path(SHIPPED).parents[1]
    pins = dict(
        line.split("==") for line in (root / "constraints.txt").read_text().split() if "==" in line
    )
    image = (SHIPPED / "Dockerfile").read_text()
    assert f"rayproject/ray:{pins['ray']}-py311" in image
    # No torch of this version for CUDA 12.8.
    assert pins["torch"].startswith("2.13.")
    assert re.findall(r"whl/(cu\d+)", image) == ["cu126"]
    for name in ("raycluster", "rayjob", "rayservice"):
        assert f'rayVersion: "{pins["ray"]}"' in (SHIPPED / "kuberay" / f"{name}.yaml").read_text()


def test_the_script_for_slurm_is_one_and_waits_for_every_node():
    (script,) = re.findall(r"```bash\n(.*?)```", (SHIPPED / "slurm.md").read_text(), re.S)
    assert subprocess.run(["bash", "-n", "-c", script], check=False).returncode == 0
    (program,) = re.findall(r"python -c '\n(.*?)' \"\$address", script, re.S)
    compile(program, "slurm.md", "exec")
    waits = ["wait_for_nodes 1\n", 'wait_for_nodes "$SLURM_JOB_NUM_NODES"\n']
    order = [
        script.index(w) for w in ("ray start --head", waits[0], "ray start --address", waits[1])
    ]
    assert order == sorted(order)
    assert script.index(waits[1]) < script.index("\nroad pretrain")
