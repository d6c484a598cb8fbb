"""Several layers, and online training, from a config to tables and report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from nqf_pipeline.store.open import open_study
from tests.workflow.runs import Workspace

TEACHER = {"kind": "teacher_network", "scale": 0.5, "samples": 40, "test_samples": 40}
SHARED = {"sigma": [0.2], "seeds": 2, "steps": 60, "records": 32}
EXPERIMENTS = {
    "layers": {
        "architectures": [
            {"kind": "deep_mlp", "inputs": 4, "between": 3, "width": 5, "twin_depth": ["deep", "shallow"]},
            {"kind": "deep_attention", "dimension": 3, "tokens": 3, "key_size": 2, "value_size": 2, "width": 2},
        ],
        "tasks": [TEACHER],
        "optimizers": [{"kind": "gd", "learning_rate": 0.02}],
        **SHARED,
    },
    "online": {
        "architectures": [{"kind": "mlp", "inputs": 4, "outputs": 1, "width": 5}],
        "tasks": [TEACHER],
        "optimizers": [{"kind": "sgd", "learning_rate": 0.02, "batch_size": 8, "fresh": [False, True]}],
        **SHARED,
    },
}


def test_layers_and_fresh_batches_go_into_a_report(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.write({"name": "tiny", "experiments": EXPERIMENTS, "report": {"figures": ["layers", "run"], "formats": ["svg"]}})
    workspace.finish()
    cells = pd.read_parquet(workspace.results / "cells.parquet")
    assert len(cells) == 10
    assert (cells["status"] == "done").all()
    assert (cells.loc[cells["experiment"] == "layers", "standing"] == "outside").all()
    deep = cells[cells["architecture"] == "deep_mlp"].set_index(["twin_depth", "seed"])
    np.testing.assert_allclose(deep.loc["deep", "network_loss"], deep.loc["shallow", "network_loss"], rtol=1e-4)
    assert (np.abs(deep.loc["deep", "twin_loss"] / deep.loc["shallow", "twin_loss"] - 1) > 1e-3).all()
    online = cells[cells["experiment"] == "online"].set_index(["fresh", "seed"])
    assert (online.loc[1, "network_loss"] != online.loc[0, "network_loss"]).all()
    assert "Several layers" in (workspace.results / "report.html").read_text()
    floors = [node["loss_floor"].to_numpy() for name, node in open_study(workspace.results).trajectories.children.items() if "deep" in name]
    assert np.isnan(np.concatenate(floors)).all()
