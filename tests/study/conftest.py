from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nqf_pipeline.study.config import Study
from nqf_pipeline.study.reading import study_from
from tests.small import config


@pytest.fixture
def small() -> Callable[..., Study]:
    """A study of two buckets with 16 cells, and changes to its experiment."""

    def make(name: str = "trial", engine: dict[str, Any] | None = None, **changes: Any) -> Study:
        optimizers = [{"kind": "gd", "learning_rate": 0.01}, {"kind": "adam", "learning_rate": 0.001}]
        experiment = {"optimizers": optimizers, "sigma": [0.1, 0.01], "seeds": 4, "steps": 5000} | changes
        return study_from(config(name, engine, **experiment))

    return make
