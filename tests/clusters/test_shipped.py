"""Shipped cluster files, validated against their schemas without a cloud."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from road_ray.distributed.jobs.cluster_profile import SHIPPED

LAUNCHER = ["local", "aws", "gcp"]
# What EC2 `create_instances` and the Compute Engine API take, as far as these files use it: a typo
# would be found only when a machine is asked for.
NODE_KEYS = {
    "aws": {
        *("InstanceType", "ImageId", "KeyName", "SubnetIds", "SecurityGroupIds"),
        *("IamInstanceProfile", "BlockDeviceMappings", "InstanceMarketOptions"),
        *("MetadataOptions", "TagSpecifications", "Placement", "UserData"),
    },
    "gcp": {
        *("machineType", "disks", "scheduling", "metadata", "networkInterfaces"),
        *("guestAccelerators", "serviceAccounts", "labels", "tags"),
    },
}
INNER_KEYS = {
    "MetadataOptions": {"HttpTokens", "HttpPutResponseHopLimit", "HttpEndpoint"},
    "InstanceMarketOptions": {"MarketType", "SpotOptions"},
    "scheduling": {
        *("provisioningModel", "instanceTerminationAction", "onHostMaintenance"),
        *("automaticRestart", "preemptible"),
    },
}
PROVIDER_KEYS = {
    "local": {"type", "head_ip", "worker_ips"},
    "aws": {
        *("type", "region", "availability_zone", "cache_stopped_nodes", "use_internal_ips"),
        "security_group",
    },
    "gcp": {"type", "region", "availability_zone", "project_id", "cache_stopped_nodes"},
}


def loaded(name: str) -> dict[str, Any]:
    return yaml.safe_load((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8"))


def launcher_accepts(config: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(copy.deepcopy(config)))


def odd_keys(config: dict[str, Any]) -> list[str]:
    kind = config["provider"]["type"]
    odd = [f"provider.{key}" for key in config["provider"].keys() - PROVIDER_KEYS[kind]]
    for name, node in config.get("available_node_types", {}).items():
        settings = node["node_config"]
        odd += [f"{name}.{key}" for key in settings.keys() - NODE_KEYS[kind]]
        for section, known in INNER_KEYS.items():
            odd += [f"{name}.{section}.{key}" for key in settings.get(section, {}).keys() - known]
    return odd


@pytest.mark.parametrize("name", LAUNCHER)
def test_the_launcher_takes_the_file_as_it_is(name):
    config = loaded(name)
    launcher_accepts(config)
    assert odd_keys(config) == []


def test_the_checks_see_typos():
    config = loaded("aws")
    config["max_worker"] = 3
    with pytest.raises(Exception, match="max_worker"):
        launcher_accepts(config)
    config = loaded("gcp")
    config["available_node_types"]["gpu_spot"]["node_config"]["scheduling"]["provisioning"] = "SPOT"
    config["provider"]["zone"] = "x"
    assert sorted(odd_keys(config)) == ["gpu_spot.scheduling.provisioning", "provider.zone"]


@pytest.mark.parametrize("name", LAUNCHER)
def test_every_ray_process_asks_for_the_token_and_the_dashboard_stays_inside(name):
    config = loaded(name)
    starts = config["head_start_ray_commands"] + config["worker_start_ray_commands"]
    begun = [command for command in starts if "ray start" in command]
    assert len(begun) == 2
    assert all(command.startswith("RAY_AUTH_MODE=token ") for command in begun)
    assert "RAY_health_check_failure_threshold=4 ray start --head" in begun[0]
    assert "--dashboard-host=127.0.0.1" in begun[0]
    assert "chmod 600 ~/.ray/auth_token" in config["setup_commands"]
    assert config["file_mounts"] == {"~/.ray/auth_token": "~/.ray/auth_token"}


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
    spec = manifest["spec"]
    broken = copy.deepcopy(manifest)
    where = broken["spec"].get("rayClusterSpec", broken["spec"])
    where["workerGroupSpecs"][0]["maxReplica"] = 3
    where["workerGroupSpecs"][1]["rayStartParams"]["num-cpus"] = 4
    message = " ".join(error.message for error in validator.iter_errors(broken))
    assert "maxReplica" in message
    assert "4 is not of type 'string'" in message
    groups(spec.get("rayClusterSpec", spec))


def groups(cluster: dict[str, Any]) -> None:
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["networkPolicy"]["mode"].startswith("DenyAll")
    assert cluster["headGroupSpec"]["rayStartParams"]["num-gpus"] == "0"
    settings = {
        group["groupName"]: group["template"]["spec"] for group in cluster["workerGroupSpecs"]
    }
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
    for name in ("raycluster", "rayjob", "rayservice"):
        assert f'rayVersion: "{pins["ray"]}"' in (SHIPPED / "kuberay" / f"{name}.yaml").read_text()


def test_the_entry_point_of_the_job_is_a_line_that_road_understands():
    import shlex

    from road_ray.verbs import configure

    words = shlex.split(loaded("kuberay/rayjob")["spec"]["entrypoint"])
    assert words[:2] == ["road", "distill"]
    overrides = [word for word in words if "=" in word]
    preset = words[words.index("--preset") + 1]
    config = configure("distill", preset=preset, overrides=overrides)
    assert config.distillation.gpus_per_teacher == 1
