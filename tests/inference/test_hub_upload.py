"""``road push`` against a hub of the test: what is sent, and what is refused before."""

import json
import shutil
from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi

from road_ray.errors import CheckpointError, ConfigError
from road_ray.inference.hub_upload import check_repository, model_files


@pytest.fixture
def hub(monkeypatch):
    """The hub's repositories by name, as the calls of ``HfApi`` see and change them."""
    repositories: dict[str, dict] = {}

    def model_info(self, name):
        return SimpleNamespace(private=repositories[name]["private"])

    def create_repo(self, name, private, exist_ok):
        repositories.setdefault(name, {"private": private, "files": {}})

    def create_commit(self, repo_id, operations, commit_message):
        for added in operations:
            with added.as_file() as file:
                repositories[repo_id]["files"][added.path_in_repo] = file.read()

    for call in (model_info, create_repo, create_commit):
        monkeypatch.setattr(HfApi, call.__name__, call)
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_test")
    return repositories


@pytest.fixture
def model(pretrained, tmp_path):
    """A copy of a run, with files that nobody wants to publish."""
    run = tmp_path / "run"
    shutil.copytree(pretrained.directory, run)
    record = run / "hf" / "road_ray.json"
    known = json.loads(record.read_text()) | {"init": "/home/ada/models/mine"}
    known["data"] = {"sets": {"own": {"labels": ["/people/person", "c:x"], "separator": "/"}}}
    record.write_text(json.dumps(known))
    (run / "hf" / "train.csv").write_text("private rows\n")
    (run / "hf" / ".netrc").write_text("password\n")
    (run / "hf" / "notes.json.swp").write_text("x")
    return run


def test_the_model_and_nothing_else_is_sent_to_a_private_repository(road, hub, model):
    assert "/me/mine (private)" in road("push", model, "me/mine").good().out
    assert hub["me/mine"]["private"] is True
    here = {name: path.read_bytes() for name, path in model_files(model)[0].items()}
    sent = hub["me/mine"]["files"]
    assert json.loads(here["road_ray.json"])["init"] == "/home/ada/models/mine"
    assert json.loads(sent["road_ray.json"])["init"] == ".../models/mine"
    assert json.loads(sent["road_ray.json"])["data"] == json.loads(here["road_ray.json"])["data"]
    assert sent | {"road_ray.json": b""} == here | {"road_ray.json": b""}
    assert {"config.json", "model.safetensors", "generator/model.safetensors"} <= here.keys()
    assert not {"train.csv", ".netrc", "notes.json.swp"} & here.keys()
    again = road("push", model, "me/mine", "--json")
    assert json.loads(again.out)["url"].endswith("/me/mine")


SECRETS = {
    "README.md": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n",
    "generation_config.json": '{"a": [{"api_key": "abcdefgh-of-nobody"}]}',
    "vocab.txt": "x\n" * (1 << 20) + "hf_" + "a" * 30 + "\n",  # behind the first MiB
    "merges.txt": "-----BEGIN OPENSSH PRIVATE KEY-----\n",
    "added_tokens.json": '{"hf_token": "abcdefgh-of-nobody"}',
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_a_file_of_the_model_is_refused(model, name):
    (model / "hf" / name).write_text(SECRETS[name])
    (model / "hf" / "road_ray.json").write_text("{}")
    with pytest.raises(ConfigError, match=f"{name}: has what looks like a secret"):
        model_files(model)


def test_words_of_a_vocabulary_are_no_secrets(model):
    words = {"password": 1, "api_key": 2, "[PAD]": 0}
    (model / "hf" / "vocab.json").write_text(json.dumps(words))
    config = {"pad_token": "[PAD] of the model", "image_token": "<image> of it"}
    (model / "hf" / "added_tokens.json").write_text(json.dumps(config))
    assert {"vocab.json", "added_tokens.json"} <= {*model_files(model)[0]}


def test_a_public_repository_gets_a_model_only_on_request(road, hub, model):
    hub["me/open"] = {"private": False, "files": {}}
    road("push", model, "me/open").refused(2, "is public")
    assert hub["me/open"]["files"] == {}
    assert road("push", model, "me/open", "--public").code == 0


def test_only_files_of_a_model_are_sent(road, model):
    """Offline, as every test, and without a token. Files of a model are listed, not what is none:
    keys and data lay beside the weights.
    """
    names = ("key.pem", "service.json", "rows.txt", "notes.md", "optimizer.safetensors")
    for name in names:
        (model / "hf" / name).write_text("{}")
    assert not {*names} & {*model_files(model)[0]}
    result = road("push", model, "me/mine", "--dry-run").good()
    assert "nothing was sent" in result.out
    assert "not sent: key.pem, notes.json.swp, notes.md, optimizer.safetensors" in result.out
    size = (model / "hf" / "model.safetensors").stat().st_size
    assert f"{size:,}" in result.out
    listed = json.loads(road("push", model, "me/mine", "--dry-run", "--json").out)
    assert (listed["url"], listed["files"]["model.safetensors"]) == (None, size)


@pytest.mark.parametrize(
    ("token", "message"), [("", "no token of the hub"), ("hf_of_the_test", "offline mode")]
)
def test_without_token_or_network_it_ends_with_code_4(road, model, monkeypatch, token, message):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: token or None)
    road("push", model, "me/mine").refused(4, message, "fix:")


@pytest.mark.parametrize("name", ["mine", "me/mi ne", "me/../x", "a/b/c", f"me/{'x' * 100}"])
def test_a_name_of_no_repository_is_refused(name):
    with pytest.raises(ConfigError, match="OWNER/NAME"):
        check_repository(name)


def test_what_is_no_whole_model_is_refused(model, tmp_path, monkeypatch):
    with pytest.raises(CheckpointError, match="no model"):
        model_files(tmp_path)
    (model / "hf" / "merges.txt").symlink_to("/etc/hostname")
    with pytest.raises(CheckpointError, match="leads out of the model"):
        model_files(model)
    (model / "hf" / "merges.txt").unlink()
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret-indeed")
    (model / "hf" / "README.md").write_text("call with sk-very-secret-indeed")
    with pytest.raises(ConfigError, match="looks like a secret"):
        model_files(model)
    (model / "hf" / "README.md").unlink()
    (model / "hf" / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer.json: not the file .* cannot be read"):
        model_files(model)
