"""Names in a configuration: one that is built in, or ``package.module:name`` of the user's own."""

import os
import platform
import re
import sys
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

from pydantic import AfterValidator

from road_ray.errors import ConfigError, did_you_mean

# Something true for ``package.module:name``.
is_own = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*").fullmatch


def name_of(what: str, known: Collection[str] = ()) -> AfterValidator:
    """Return the validator of a field that holds the name of a ``what``: one that is known or of
    the user's own; no module is loaded.
    """

    def check(name: str) -> str:
        if name not in known and not is_own(name):
            hint = did_you_mean(name, known)
            raise ValueError(f"no such {what}{hint}; allowed: {_allowed(known)}")
        return name

    return AfterValidator(check)


def named_object(key: str, name: str, known: Mapping[str, Any], contract: str) -> Any:
    """Return the object of a name: the entry of ``known``, or what ``package.module:name`` names;
    an entry may be such a name too. The module is installed, or lies in the working directory.

    ``key`` and ``contract``, what the object must be, stand in errors. Raises ``ConfigError`` for
    an unknown name, and for a module that cannot be imported in this process or lacks the name.
    """
    target = known.get(name, name)
    if not isinstance(target, str):
        return target
    if not is_own(target):
        raise ConfigError(
            f"{key} = {name}: unknown{did_you_mean(name, known)}\n  allowed: {_allowed(known)}"
        )
    module, _, attribute = target.partition(":")
    if (directory := os.getcwd()) not in sys.path:
        sys.path.append(directory)  # as `python -m` does; Ray does so for its workers
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # whatever the module raises
        tried = (
            f"{error!r}\n  tried: from {module} import {attribute}, in {directory} and the packages"
            f" of {sys.executable} on {platform.node()}"
        )
        raise unfit(key, name, tried, contract) from error


def unfit(key: str, name: str, problem: str, contract: str) -> ConfigError:
    """Return the error of an object that cannot be used for ``key``."""
    return ConfigError(f"{key} = {name}: {problem}\n  allowed: {contract}\n  nothing was started")


def _allowed(known: Collection[str]) -> str:
    return ", ".join([*known, "or package.module:name"])
