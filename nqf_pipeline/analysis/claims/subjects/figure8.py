"""Figure 8 of the paper: networks of several layers against a quadratic form per layer and a single one, and Theorems 14 and 15."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import mean_of, span_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.claims.measures import Measure
from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.manifest import read_manifest

if TYPE_CHECKING:
    from nqf_pipeline.dynamics.closure import Closure
    from nqf_pipeline.study.cells import Cell

STUDY = "fig8"
NETWORKS = {"deep_mlp": ("the 4-layer MLP", "mlp", (0.05, 0.5)), "deep_attention": ("2-layer attention", "attention", (0.1, 1.0))}
ROUNDING = 1e-10
CLEARLY = 0.9
"""Ratio of two distances below which one form is clearly the nearer."""


def distances(evidence: Evidence, architecture: str, variance: float, twin: str) -> pd.Series:
    """Last distance of network and twin (rms over rms target, training samples), by seed."""
    given: dict[str, Any] = {"architecture": architecture, "experiment": NETWORKS[architecture][1], "sigma": variance**0.5}
    curves = evidence.curves("divergence", **given, twin_depth=twin)
    return pd.Series({curve.cell["seed"]: float(curve.data["divergence"].to_numpy()[-1]) for curve in curves})


def nearer(architecture: str, variance: float) -> Measure:
    """Distance of the 2-layer form over that of the 1-layer form, paired by seed."""

    def measure(evidence: Evidence) -> Finding:
        deep, shallow = (distances(evidence, architecture, variance, twin) for twin in ("deep", "shallow"))
        tests = _last_test_losses(evidence, architecture, variance)
        note = (
            f"Mean over {len(deep)} seeds of the ratio at the last step; distances {deep.mean():.2g} and {shallow.mean():.2g}; last test "
            f"losses {tests[0]:.2g} (network), {tests[1]:.2g} (2-layer), {tests[2]:.2g} (1-layer)."
        )
        return Finding.at_most(CLEARLY, mean_of(deep / shallow), note)

    return measure


def _last_test_losses(evidence: Evidence, architecture: str, variance: float) -> tuple[float, float, float]:
    """Means over seeds: network, deep twin, shallow twin."""
    found: dict[str, float] = {}
    for twin in ("deep", "shallow"):
        given: dict[str, Any] = {"architecture": architecture, "experiment": NETWORKS[architecture][1], "sigma": variance**0.5}
        curves = evidence.curves("network_test_loss", "twin_test_loss", **given, twin_depth=twin)
        for source in ("network", "twin"):
            found[f"{source} {twin}"] = float(np.mean([curve.data[f"{source}_test_loss"].to_numpy()[-1] for curve in curves]))
    return found["network deep"], found["twin deep"], found["twin shallow"]


def follows(architecture: str) -> Measure:
    """Largest distance of the 2-layer form over training at small initialisation."""

    def measure(evidence: Evidence) -> Finding:
        sigma = NETWORKS[architecture][2][0] ** 0.5
        cells = evidence.cells(
            architecture=architecture, experiment=NETWORKS[architecture][1], sigma=sigma, twin_depth="deep", status="done"
        )
        parts = cells["departure_step"]
        note = f"Mean over {len(cells)} seeds; outputs differ by a tenth of the target from step {parts.min():g} to {parts.max():g} on."
        return Finding.at_most(0.1, mean_of(cells["largest_divergence"]), note)

    return measure


def scale(architecture: str) -> Measure:
    """Last distance of the 2-layer form at large initialisation over that at small, paired by seed."""

    def measure(evidence: Evidence) -> Finding:
        small, large = (distances(evidence, architecture, variance, "deep") for variance in NETWORKS[architecture][2])
        note = f"Mean over {len(small)} seeds of the ratio at the last step; distances {small.mean():.2g} (small) and {large.mean():.2g}."
        return Finding.at_least(1.0, mean_of(large / small), note)

    return measure


def closed_per_layer(evidence: Evidence) -> Finding:
    """Loss from (M, mu) of both layers against the twin's weights."""
    gaps = [_gap(_closure(cell, compressed=False), cell, recorded) for cell, recorded in _wide(evidence)]
    return Finding.at_most(ROUNDING, span_of(gaps), f"Largest relative difference of the twin's loss over all records, {len(gaps)} seeds.")


def compressed_per_layer(evidence: Evidence) -> Finding:
    """The same with every layer at the width of its own span."""
    found = [(_closure(cell, compressed=True), cell, recorded) for cell, recorded in _wide(evidence)]
    gaps, (closure, cell, _) = [_gap(*one) for one in found], found[0]
    widths = " and ".join(map(str, closure.widths))
    note = f"{cell.architecture.width} units a layer compressed to {widths}; largest relative difference at any record, {len(gaps)} seeds."
    return Finding.at_most(ROUNDING, span_of(gaps), note)


def _wide(evidence: Evidence) -> list[tuple[Cell, np.ndarray]]:
    """Cells of the experiment `wide` with the twin's recorded loss."""
    layout = Layout(evidence.study.path)
    cells = {cell.id: cell for shard in read_manifest(layout.manifest, STUDY).shards for cell in shard.cells}
    found = [
        (cells[str(curve.cell["cell"])], curve.data["twin_loss"].to_numpy()) for curve in evidence.curves("twin_loss", experiment="wide")
    ]
    if any(cell.precision != "float64" for cell, _ in found):
        raise Unresolved("the experiment `wide` was not run in double precision")
    return found


def _closure(cell: Cell, compressed: bool) -> Closure:
    """(M, mu) of every layer of a cell's deep twin."""
    from nqf_pipeline.dynamics.deep import compress_layers, deep_closure, layers_of, units_of  # JAX: imported where it is used
    from nqf_pipeline.dynamics.losses import squared_error
    from nqf_pipeline.models.stack import Stack
    from nqf_pipeline.study.draws import initial_weights, problem_of

    assert isinstance(cell.architecture, Stack)  # what `wide` trains
    problem, units = problem_of(cell), units_of(cell.architecture, initial_weights(cell))
    closure = deep_closure(layers_of(cell.architecture), problem.inputs, problem.targets, squared_error, units)
    return compress_layers(closure, units)[0] if compressed else closure


def _gap(closure: Closure, cell: Cell, recorded: np.ndarray) -> float:
    """Largest relative difference of recorded and closed loss."""
    closed = closure.train(cell.optimizer, cell.step_grid())[0].loss
    return float(np.abs(closed / recorded - 1).max())


CLAIMS = (
    *(
        Claim(
            f"figure8.{kind}_{size}",
            f"At {size} initialisation (variance {variance:g}) the 2-layer NQF ends nearer to {name} than the 1-layer one (by a tenth).",
            "Figure 8",
            STUDY,
            nearer(kind, variance),
        )
        for kind, (name, _, variances) in NETWORKS.items()
        for size, variance in zip(("small", "large"), variances, strict=True)
    ),
    *(
        Claim(
            f"figure8.{kind}_follows",
            f"At small initialisation the outputs of {name} stay within a tenth of the target of its 2-layer NQF's.",
            "Figure 8",
            STUDY,
            follows(kind),
        )
        for kind, (name, _, _) in NETWORKS.items()
    ),
    *(
        Claim(
            f"figure8.{kind}_scale",
            f"Large initialisation is a limit of the NQF: {name} ends further from its 2-layer NQF than at small initialisation.",
            "Figure 8, limitations",
            STUDY,
            scale(kind),
        )
        for kind, (name, _, _) in NETWORKS.items()
    ),
    Claim(
        "theorem14.closed_per_layer",
        "Layers that read each other obey closed recurrences in (M, mu) per layer: relative difference from the weights over 1000 steps.",
        "Theorem 14",
        STUDY,
        closed_per_layer,
    ),
    Claim(
        "theorem15.compressed_per_layer",
        "Every layer reduced to the width of its own span gives the same loss at every step: relative difference over 1000 steps.",
        "Theorem 15",
        STUDY,
        compressed_per_layer,
    ),
)
