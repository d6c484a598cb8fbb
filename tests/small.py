"""One small experiment, for tests to which its details do not matter."""

from __future__ import annotations

from typing import Any

EXPERIMENT: dict[str, Any] = {
    "architectures": [{"kind": "mlp", "inputs": 6, "outputs": 3, "width": 4}],
    "tasks": [{"kind": "teacher", "strengths": [1, 0.5], "samples": 40, "test_samples": 40}],
    "optimizers": [{"kind": "gd", "learning_rate": 0.01}],
    "sigma": [0.1],
}


def config(name: str = "trial", engine: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A study of this experiment with changes to it, as a config file gives it."""
    return {"name": name, "experiments": {"tracks": EXPERIMENT | changes}, "engine": engine or {}}
