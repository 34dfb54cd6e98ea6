"""Labels of rows by a large language model behind an OpenAI-compatible address.

The output is a file of answers that ``distillation.teachers`` takes: the columns that the prompt
shows, ``probability_<label>`` of each label and the text of the ``answer``. Answers are kept as
they come, keyed by the content of the request, so a row is asked once, also after a kill. The key
of the address is read from the environment and written nowhere.
"""

import asyncio
import hashlib
import json
import logging
import math
import os
import random
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from road_ray.data.readers.tables import missing_columns
from road_ray.data.task_and_dataset import plain_label
from road_ray.errors import ConfigError, DataError, ResourceError, shorten
from road_ray.inference.input_rows import file_rows
from road_ray.inference.predict_file import PartialOutput

_log = logging.getLogger(__name__)
WRITERS = {".parquet": "to_parquet", ".csv": "to_csv", ".jsonl": "to_json"}  # of a Dataset
KEY = "OPENAI_API_KEY"  # the default variable of the environment
_RETRIES, _FIRST_DELAY, _LONGEST_DELAY = 6, 1.0, 60.0
_LEAST_SHARE = 0.5  # of the probability that must be on labels
_MALFORMED = 20  # first answers of which one at least must name a label
_TOLD_SECONDS = 10.0
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class LabelSettings:
    """Address, labels and ``prompt`` with ``{column}`` and ``{labels}``; ``votes`` samples a row
    where the server gives no log-probabilities, ``concurrency`` requests at a time.
    """

    url: str
    labels: tuple[str, ...]
    prompt: str
    model: str = ""
    votes: int = 5
    concurrency: int = 8
    timeout_seconds: float = 60.0
    key_variable: str = KEY

    def __post_init__(self) -> None:
        plain = list(map(plain_label, self.labels))
        if len(plain) < 2 or len(set(plain)) < len(plain) or not all(plain):
            raise ConfigError(
                f"--labels {','.join(self.labels)}\n  allowed: two or more different labels"
            )
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"{self.url}: no address\n  allowed: such as http://host:8000/v1")
        if set(_PLACEHOLDER.findall(self.prompt)) <= {"labels"}:
            raise ConfigError("--prompt: shows no column of a row\n  allowed: such as {text}")


@dataclass
class Labelling:
    """Counts of one call of ``label_rows``."""

    rows: int = 0
    asked: int = 0
    unlabelled: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        rate = self.asked / max(self.seconds, 1e-9)
        return (
            f"{self.asked} texts asked in {self.requests} requests, {rate:.1f} a second; "
            f"{self.prompt_tokens} + {self.answer_tokens} tokens; {self.unlabelled} without a label"
        )


def label_rows(source: str, output: Path, settings: LabelSettings) -> Labelling:
    """Ask for the label of each row of ``source``, and write the answers to ``output`` in the order
    of the rows; a row whose answer names no label has empty probabilities.

    After an interruption, the same call goes on. Raises ``ConfigError`` for an address that is no
    chat server or refuses the request, ``ResourceError`` if it fails again and again, ``DataError``
    if the first 20 answers name no label.
    """
    if output.suffix not in WRITERS:
        raise ConfigError(f"--output {output}\n  allowed: {', '.join(WRITERS)}")
    columns = [name for name in _PLACEHOLDER.findall(settings.prompt) if name != "labels"]
    rows, prompts = list[dict[str, str]](), list[str]()
    for where, row in file_rows(source):
        if missing := [name for name in columns if name not in row]:
            raise DataError(missing_columns(where, missing, list(row)).split("\n")[0])
        rows.append({name: "" if row[name] is None else str(row[name]) for name in columns})
        shown = {**rows[-1], "labels": ", ".join(settings.labels)}
        parts = enumerate(_PLACEHOLDER.split(settings.prompt))  # texts and columns in turn
        prompts.append("".join(shown[x] if n % 2 else x for n, x in parts))
    with closing(PartialOutput(output, "answer", {})) as file:
        client = _Client(settings, file)
        # All that decides an answer but the address.
        parts_of = ([client.model, settings.labels, settings.votes, prompt] for prompt in prompts)
        keys = [hashlib.sha256(json.dumps(x).encode()).hexdigest()[:32] for x in parts_of]
        asked = dict(zip(keys, prompts, strict=True))
        left = {key: prompt for key, prompt in asked.items() if key not in client.answers}
        asyncio.run(client.ask_all(left))
        answers = [client.answers[key] for key in keys]
        names = [f"probability_{label}" for label in settings.labels]
        table = [
            row
            | dict(zip(names, answer["shares"] or [None] * len(names), strict=True))
            | {"answer": answer["text"]}
            for row, answer in zip(rows, answers, strict=True)
        ]
        import datasets

        datasets.disable_progress_bars()
        file.finish(getattr(datasets.Dataset.from_list(table), WRITERS[output.suffix]))
    client.counts.rows = len(rows)
    client.counts.unlabelled = sum(answer["shares"] is None for answer in answers)
    return client.counts


@dataclass
class _Client:
    """Requests to one address; every answer is in ``answers`` and appended to ``file`` at once."""

    settings: LabelSettings
    file: PartialOutput
    counts: Labelling = field(default_factory=Labelling)

    def __post_init__(self) -> None:
        key = os.environ.get(self.settings.key_variable)
        self.connection: dict[str, Any] = {
            "base_url": self.settings.url.rstrip("/") + "/",
            "headers": {"Authorization": f"Bearer {key}"} if key else {},
            "timeout": self.settings.timeout_seconds,
        }
        self.model, self.gives_logprobs = self.settings.model, True
        try:
            if not self.model:  # the first of the server
                with httpx.Client(**self.connection) as http:
                    self.model = str(http.get("models").json()["data"][0]["id"])
        except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
            raise ConfigError(
                f"{self.settings.url}/models: gives no list of models: {error!r}\n"
                "  fix: correct the address, such as http://host:8000/v1, or give --model NAME"
            ) from error
        self.answers: dict[str, dict[str, Any]] = {row["key"]: row for row in self.file.rows()}
        if self.answers:
            _log.info("%d answers are there already", len(self.answers))

    async def ask_all(self, prompts: Mapping[str, str]) -> None:
        """Ask all prompts, at most ``concurrency`` at a time."""
        left, begin, told = iter(prompts.items()), time.monotonic(), 0.0

        async def ask() -> None:
            nonlocal told
            for key, prompt in left:
                self._keep(key, *await self._ask(prompt))
                self.counts.seconds = time.monotonic() - begin
                if self.counts.seconds > told + _TOLD_SECONDS:
                    told = self.counts.seconds
                    _log.info("%d of %d: %s", self.counts.asked, len(prompts), self.counts)

        number = self.settings.concurrency
        limits = httpx.Limits(max_connections=number)
        async with httpx.AsyncClient(**self.connection, limits=limits) as self.http:
            await asyncio.gather(*(ask() for _ in range(number)))

    async def _ask(self, prompt: str) -> tuple[list[float] | None, str]:
        """Return the probabilities of the labels of one row, and the text of the answer."""
        labels, votes = self.settings.labels, self.settings.votes
        shares, text, content = None, "", None
        if self.gives_logprobs:
            choices = await self._post(prompt, temperature=0, logprobs=True, top_logprobs=20)
            text, content = _text(choices[0]), (choices[0].get("logprobs") or {}).get("content")
            if content:
                shares = shares_of(content, labels)
            elif text:  # an empty answer has no token, whose probabilities a server could give
                self.gives_logprobs = False
                _log.info("no log-probabilities: %d votes a row", votes)
        if shares is None and (not content or label_of(text, labels)):
            texts: list[str] = []
            while len(texts) < votes:  # some servers give one sample a request
                more = await self._post(prompt, temperature=1, n=votes - len(texts))
                texts += map(_text, more)
            found = Counter(label for label in (label_of(text, labels) for text in texts) if label)
            text = " | ".join(texts)
            if found:
                shares = [found[label] / found.total() for label in labels]
        return shares, text

    def _keep(self, key: str, shares: list[float] | None, text: str) -> None:
        """Keep an answer. Raises ``DataError`` if none of the first ones names a label."""
        self.answers[key] = {"key": key, "shares": shares, "text": text}
        self.file.append([self.answers[key]])
        self.counts.asked += 1
        self.counts.unlabelled += shares is None
        if self.counts.asked == self.counts.unlabelled == _MALFORMED:
            raise DataError(
                f"{self.settings.url}: the first {_MALFORMED} answers name no label of "
                f"{', '.join(self.settings.labels)}; the last: {shorten(repr(text))}\n"
                "  fix: let the prompt ask for one label and nothing else"
            )

    async def _post(self, prompt: str, **options: Any) -> list[dict[str, Any]]:
        """Return the choices of a chat completion; failures that may pass are tried again."""
        messages = [{"role": "user", "content": prompt}]
        body = {"model": self.model, "messages": messages, "max_tokens": 16, **options}
        problem = ""
        for attempt in range(_RETRIES + 1):
            delay = min(_FIRST_DELAY * 2**attempt * random.uniform(0.5, 1), _LONGEST_DELAY)
            try:
                self.counts.requests += 1
                answer = await self.http.post("chat/completions", json=body)
                if answer.status_code == httpx.codes.OK:
                    content = answer.json()
                    choices: list[dict[str, Any]] = content["choices"]
                    [_text(choice) for choice in choices or [{}]]  # raises for another shape
                    usage = content.get("usage") or {}
                    self.counts.prompt_tokens += usage.get("prompt_tokens") or 0
                    self.counts.answer_tokens += usage.get("completion_tokens") or 0
                    return choices
                problem = f"HTTP {answer.status_code}: {shorten(answer.text)}"
                if "logprobs" in options and answer.is_client_error and "logprob" in problem:
                    return [{"message": {"content": problem}}]  # an answer without them
                if answer.status_code not in (408, 429) and answer.status_code < 500:
                    raise ConfigError(f"{answer.url}: {problem}\n  kept: the answers so far")
                if (after := answer.headers.get("retry-after", "")).isdigit():
                    delay = min(max(delay, float(after)), _LONGEST_DELAY)
            except httpx.TransportError as error:  # time-outs are among them
                problem = repr(error)
            except (ValueError, KeyError, TypeError) as error:
                problem = f"no chat completion: {shorten(answer.text)}"
                if not self.answers:
                    raise ConfigError(
                        f"{answer.url}: {problem}\n"
                        "  allowed: an OpenAI-compatible address, such as http://host:8000/v1"
                    ) from error
            await asyncio.sleep(delay)
        raise ResourceError(
            f"{self.settings.url}: {problem}, {_RETRIES + 1} times\n  kept: {self.file.kept}\n"
            "  fix: to go on, run the same command"
        )


def _text(choice: Mapping[str, Any]) -> str:
    return str(choice["message"]["content"] or "")


def label_of(text: str, labels: Sequence[str]) -> str | None:
    """Return the label that an answer is, or begins with before other words."""
    starts = [rf"{re.escape(plain_label(one))}(?![a-z0-9])" for one in labels]
    for plain in (plain_label(text), plain_label(re.sub(r"^\W+", "", text))):  # a label may be "-"
        if found := [one for one, s in zip(labels, starts, strict=True) if re.match(s, plain)]:
            return max(found, key=len)
    return None


def shares_of(content: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[float] | None:
    """Return the probability of each label, by the tokens that the first token of the answer could
    be: a token counts for the one label that begins with it. None if less than half of the
    probability is on labels, or two labels begin alike.
    """
    first = next((token for token in content if str(token["token"]).strip()), None)
    shares = dict.fromkeys(labels, 0.0)
    for token in (first or {}).get("top_logprobs") or ():
        start = plain_label(str(token["token"]))
        begun = [label for label in labels if plain_label(label).startswith(start)]
        if start and len(begun) == 1:
            shares[begun[0]] += math.exp(float(token["logprob"]))
    total = sum(shares.values())
    return [share / total for share in shares.values()] if total >= _LEAST_SHARE else None
