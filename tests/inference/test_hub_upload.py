"""``road push`` against a hub of the test: what is sent, and what is refused before."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from road_ray.errors import CheckpointError, ConfigError
from road_ray.inference.hub_upload import check_repository, model_files

ROOT = Path(__file__).parents[2]
COMMIT = 40 * "c"


class Hub(BaseHTTPRequestHandler):
    """The calls of a commit and of a download, as the hub answers them; ``server.repositories`` by
    name.
    """

    def do_GET(self):
        repository, resolve, file = self.path[1:].partition(f"/resolve/{COMMIT}/")
        if resolve:
            self.send_file(self.server.repositories[repository]["files"].get(file))
            return
        name, tree, _ = self.path.removeprefix("/api/models/").partition(f"/tree/{COMMIT}?")
        if tree:
            files = self.server.repositories[name]["files"].items()
            facts = {"type": "file", "oid": "0"}
            self.answer(200, [facts | {"path": file, "size": len(x)} for file, x in files])
            return
        repository = self.server.repositories.get(name.removesuffix("/revision/main"))
        if repository is None:
            self.answer(404, {"error": "Repository not found"}, error="RepoNotFound")
            return
        siblings = [{"rfilename": name} for name in repository["files"]]
        facts = {"id": "o/n", "sha": COMMIT, "private": repository["private"]}
        self.answer(200, facts | {"siblings": siblings})

    do_HEAD = do_GET

    def do_POST(self):
        assert self.headers["authorization"] == "Bearer hf_of_the_test"
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.calls.append(self.path)
        if self.path == "/api/validate-yaml":  # of the model card
            self.answer(200, {"errors": [], "warnings": []})
        elif self.path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted['organization']}/{wanted['name']}"
            private = wanted.get("private") or wanted.get("visibility") == "private"
            self.server.repositories[name] = {"private": private, "files": {}}
            self.answer(200, {"url": f"{self.server.url}/{name}"})
        elif self.path.endswith("/preupload/main"):
            paths = [file["path"] for file in json.loads(body)["files"]]
            regular = {"uploadMode": "regular", "shouldIgnore": False}
            self.answer(200, {"files": [{"path": path} | regular for path in paths]})
        elif self.path.endswith("/commit/main"):
            name = self.path.removeprefix("/api/models/").removesuffix("/commit/main")
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.server.repositories[name]["files"][line["value"]["path"]] = content
            self.answer(200, {"commitUrl": f"{self.server.url}/{name}/commit/1", "commitOid": "1"})
        else:
            self.answer(500, {"error": self.path})

    def send_file(self, content):
        if content is None:
            self.answer(404, {}, error="EntryNotFound")
            return
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{sha256(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def answer(self, code, content, error=""):
        body = json.dumps(content).encode()
        self.send_response(code)
        if error:
            self.send_header("X-Error-Code", error)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.repositories, server.calls = {}, []
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def model(pretrained, tmp_path):
    """A copy of a run, with files that nobody wants to publish."""
    run = tmp_path / "run"
    shutil.copytree(pretrained.directory, run)
    (run / "hf" / "train.csv").write_text("private rows\n")
    (run / "hf" / ".netrc").write_text("password\n")
    (run / "hf" / "notes.json.swp").write_text("x")
    return run


def road_push(*words, **more):
    return road_process("push", *words, **more)


def road_process(*words, hub=None, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_HUB_OFFLINE": "0", "HF_HOME": "/nonexistent", "HF_HUB_DISABLE_XET": "1"}
    environment |= {"HF_ENDPOINT": hub.url if hub else "http://127.0.0.1:9"} | more
    command = [sys.executable, "-m", "road_ray", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


TOKEN = {"HF_TOKEN": "hf_of_the_test"}


def test_the_model_and_nothing_else_is_sent_to_a_private_repository(hub, model):
    done = road_push(model, "me/mine", hub=hub, **TOKEN)
    assert done.returncode == 0, done.stderr
    assert f"sent to {hub.url}/me/mine (private)" in done.stdout
    there = hub.repositories["me/mine"]
    assert there["private"] is True
    here = {name: path.read_bytes() for name, path in model_files(model).items()}
    assert there["files"] == here
    assert {"config.json", "model.safetensors", "generator/model.safetensors"} <= here.keys()
    assert not {"train.csv", ".netrc", "notes.json.swp"} & here.keys()

    again = road_push(model, "me/mine", "--json", hub=hub, **TOKEN)
    assert json.loads(again.stdout)["url"] == f"{hub.url}/me/mine"


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
    assert {"vocab.json", "added_tokens.json"} <= {*model_files(model)}


def test_only_files_of_a_model_are_sent_and_others_on_request(road, model):
    """A list of what is sent, not of what is not: keys and data lay beside the weights."""
    names = ("key.pem", "service.json", "rows.txt", "notes.md", "optimizer.safetensors")
    for name in names:
        (model / "hf" / name).write_text("{}")
    assert not {*names} & {*model_files(model)}
    listed = road("push", model, "me/mine", "--dry-run")
    assert "not sent: key.pem, notes.json.swp, notes.md, optimizer.safetensors" in listed.out
    more = {*model_files(model, ["notes.*"])}
    assert {*names} & more == {"notes.md"}
    (model / "hf" / "notes.md").write_text("-----BEGIN PRIVATE KEY-----")
    with pytest.raises(ConfigError, match=r"notes.md: has what looks like a secret"):
        model_files(model, ["notes.md"])
    with pytest.raises(ConfigError, match=r"--include nots.\*: fits no file"):
        model_files(model, ["nots.*"])


def test_a_public_repository_gets_a_model_only_on_request(hub, model):
    hub.repositories["me/open"] = {"private": False, "files": {".gitattributes": b""}}
    refused = road_push(model, "me/open", hub=hub, **TOKEN)
    assert (refused.returncode, "is public" in refused.stderr) == (2, True)
    assert hub.calls == []
    assert road_push(model, "me/open", "--public", hub=hub, **TOKEN).returncode == 0


def test_dry_run_lists_and_sends_nothing(road, model):
    """Offline, as every test, and without a token."""
    result = road("push", model, "me/mine", "--dry-run")
    assert result.code == 0
    assert "nothing was sent" in result.out
    size = (model / "hf" / "model.safetensors").stat().st_size
    assert f"{size:,}" in result.out
    listed = json.loads(road("push", model, "me/mine", "--dry-run", "--json").out)
    assert (listed["url"], listed["files"]["model.safetensors"]) == (None, size)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "no token"),
        (TOKEN, "cannot be written"),
        (TOKEN | {"HF_HUB_OFFLINE": "1"}, "offline mode"),
    ],
)
def test_without_token_or_network_is_told_with_exit_code_4(model, more, message):
    done = road_push(model, "me/mine", **more)
    assert done.returncode == 4, done.stderr
    assert message in done.stderr
    assert "fix:" in done.stderr
    assert "Traceback" not in done.stderr


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
