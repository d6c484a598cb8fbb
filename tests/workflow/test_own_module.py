"""A module of one's own, from a file beside the config to a report."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tests.workflow.runs import STUDY, TEACHER, Workspace

MODULE = """import jax.numpy as jnp


def block(W, x):
    return W[6:] @ jnp.tanh(W[:6].T @ x)
"""


def test_a_module_of_ones_own_goes_into_a_report(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    own = {"kind": "custom", "path": "my_model.py:block", "width": 8, "unit_size": 9, "inputs": 6, "outputs": 3}
    experiment = {**STUDY["experiments"]["tracks"], "architectures": [own], "tasks": [{**TEACHER, "strengths": [1.0]}], "sigma": [0.01]}
    experiment["optimizers"] = [{"kind": "gd", "learning_rate": 0.05}]
    workspace.write({"name": "tiny", "experiments": {"own": experiment}, "report": STUDY["report"]})
    (workspace.config.parent / "my_model.py").write_text(MODULE)
    workspace.finish()
    plateaus = pd.read_parquet(workspace.results / "plateaus.parquet")
    twin = plateaus[(plateaus["tier"] == "twin") & (plateaus["source"] == "network")]
    assert len(twin) == 2
    assert (twin["status"] == "matched").all()
    assert twin["relative_error"].abs().max() < 0.05
    assert "own module" in (workspace.results / "report.html").read_text()
