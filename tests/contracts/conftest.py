"""A module of the user's, whose parts are chosen by name."""

import sys
from types import ModuleType

import pytest


@pytest.fixture
def own(monkeypatch):
    """A function that puts objects into the module ``own_parts``."""
    module = ModuleType("own_parts")
    monkeypatch.setitem(sys.modules, "own_parts", module)
    return lambda **parts: vars(module).update(parts)
