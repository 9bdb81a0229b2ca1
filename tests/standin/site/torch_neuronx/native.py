"""The compiled half of the stand-in, from where STANDIN_NEURON_LIBRARY says."""

from __future__ import annotations

import importlib.util
import os
from typing import Any


def _load() -> Any:
    path = os.environ.get("STANDIN_NEURON_LIBRARY")
    if not path:
        raise ImportError("STANDIN_NEURON_LIBRARY is not set; tests.standin.environment() gives what is needed")
    spec = importlib.util.spec_from_file_location("neuron_device", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


library = _load()
