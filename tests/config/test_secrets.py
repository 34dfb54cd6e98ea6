"""Secrets are refused, masked and redacted."""

import pytest

from road_ray.config.secrets import MASK, masked, redact, secret_in
from road_ray.recipes.config import TrackingConfig

SECRET = "c4n4ry-0123456789"
HOLDING = [
    f"s3://bucket/run?{name}={SECRET}"
    for name in (
        *("token", "Token", "access_token", "accessToken", "api_key", "apikey", "API-KEY"),
        *("password", "passwd", "pwd", "PWD", "pass", "key", "access_key", "AccountKey", "sig"),
        *("signature", "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "secret"),
        *("client_secret", "AWSAccessKeyId", "X-Goog-Signature", "auth", "jwt", "%74oken"),
    )
] + [
    f"s3://me:{SECRET}@bucket/run",
    f"s3://me:{SECRET}/with/slashes@bucket/run",
    f"sqlite+pysqlcipher://:{SECRET}@/x.db",
    f"https://{SECRET}@host/x",
    f"https://host/x?region=a&token={SECRET}",
    f"https://host/x?region=a;token={SECRET}",
    f"https://host/x#access_token={SECRET}",
    f"mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BPWD%3D{SECRET}",
    f"simplecache::https://me:{SECRET}@host/x",
    f"s3://me%3A{SECRET}%40bucket",
]
HARMLESS = [
    "s3://bucket/run?region=eu-west-1&endpoint_override=localhost:9000&scheme=http",
    "hdfs://host:8020/a@b",
    "http://[::1]:8265/a@b",
    "mysql+pymysql://me@host:3306/db?charset=utf8&ssl_key=/etc/client.pem&ssl-key=x",
    "postgresql://me@host/db?passfile=/home/me/.pgpass&sslmode=verify-full",
    "http://host:5000/#/experiments/1?tokenizer=x&author=me&monkey=1&keyboard=de",
    "ray://head:10001",
    "sqlite:////a:b/c@d.db",
    "runs/x?token=of-no-address",
]


@pytest.mark.parametrize("address", HOLDING)
def test_secret_in_finds_secret_and_masked_hides_it(address):
    assert secret_in(address)
    with pytest.raises(ValueError, match="holds a key") as error:
        TrackingConfig(mlflow_uri=address)
    assert SECRET not in str(error.value).partition("input_value")[0]
    assert SECRET not in masked(f"cannot open {address}: refused")
    assert MASK in masked(address)


@pytest.mark.parametrize("address", HARMLESS)
def test_harmless_addresses_stay(address):
    assert secret_in(address) is None
    assert TrackingConfig(mlflow_uri=address).mlflow_uri == address
    assert masked(address) == address or "://" not in address


KEYS = """
hf_token HF_TOKEN hfToken token password client_secret api_key apiKey api-key aws_access_key
credentials passphrase Authorization ssh_key jwt pwd SAS_TOKEN auth
"""
HUB = "hf_" + "a1B2" * 8
WORDS = {"tokenizer": "google/electra", "pad_token": "[PAD]", "mask_token": "[MASK]"}
WORDS |= {"max_length_tokens": 128, "shuffle": True, "nothing": None, "learning_rate": 5e-5}
WORDS |= {"ssl_key": "client.pem", "auth_mode": "disabled"}


@pytest.mark.parametrize("key", KEYS.split())
def test_a_telling_key_hides_its_value_at_any_depth(key):
    given = {"a": [{"b": {key: "canary-1"}}]}
    assert redact(given) == {"a": [{"b": {key: MASK}}]}
    assert given["a"][0]["b"][key] == "canary-1"


@pytest.mark.parametrize(
    ("given", "masked"),
    [
        ({"credentials": {"a": "x", "b": ["1"]}}, {"credentials": {"a": MASK, "b": [MASK]}}),
        ({"token": "canary-1", "argv": ("x", "canary-1")}, {"token": MASK, "argv": ["x", MASK]}),
        ({"token": "canary-1", "a": "//x?t=canary-1&b"}, {"token": MASK, "a": f"//x?t={MASK}&b"}),
        ({"note": "is canary-outside."}, {"note": f"is {MASK}."}),  # of the environment
        ({"a": f"x {HUB}"}, {"a": f"x {MASK}"}),
        ({"b": "http://me:canary@host/x"}, {"b": f"http://{MASK}@host/x"}),
        ({"c": "--hub.token=canary-1 --lr=1"}, {"c": f"--hub.token={MASK} --lr=1"}),
        ({"password": "a", "name": "alpha"}, {"password": MASK, "name": "alpha"}),
        (WORDS, WORDS),
    ],
)
def test_secrets_are_hidden_wherever_they_stand_and_words_of_the_trade_stay(
    monkeypatch, given, masked
):
    monkeypatch.setenv("SOME_API_KEY", "canary-outside")
    monkeypatch.setenv("PWD", "google")  # the working directory is none
    assert redact(given) == masked
