from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nqf_pipeline.study.config import Study
from nqf_pipeline.study.reading import study_from


@pytest.fixture
def small() -> Callable[..., Study]:
    """A study of two buckets with 16 cells, and changes to its experiment."""

    def make(name: str = "trial", engine: dict[str, Any] | None = None, **changes: Any) -> Study:
        experiment = {
            "architectures": [{"kind": "mlp", "inputs": 6, "outputs": 3, "width": 4}],
            "tasks": [{"kind": "teacher", "strengths": [1, 0.5], "samples": 40, "test_samples": 40}],
            "optimizers": [{"kind": "gd", "learning_rate": 0.01}, {"kind": "adam", "learning_rate": 0.001}],
            "sigma": [0.1, 0.01],
            "seeds": 4,
            "steps": 5000,
        }
        return study_from({"name": name, "experiments": {"tracks": experiment | changes}, "engine": engine or {}})

    return make
