"""Theorem 1 and its limits: a module near zero weights is its quadratic form, measured as network against same-start twin."""

from __future__ import annotations

import numpy as np

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import exactly, median_of, share_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.claims.measures import Measure, cell_errors, slope_of, timing

TIMING = 0.05
"""Share of an ignition time within which a twin counts as telling it."""
NAMES = {"mlp": "tanh MLP 20-64-8", "cnn": "CNN", "query_key": "query-key attention", "multi_head": "multi-head attention"}
OPTIMIZERS = {"momentum": "Polyak momentum", "adam": "Adam"}
SOLVED = ("orthogonal_features", "orthogonal_samples", "proportional_samples", "isotropic", "general")
TRACKS = {"experiment": "tracks", "source": "network", "tier": "twin", "sigma": 0.001}


def solvable(evidence: Evidence) -> Finding:
    """Share of cells of real layers whose data and structure meet a condition of Theorems 4 to 7, as measured."""
    cells = evidence.cells(experiment="tracks")
    share = cells["regime"].isin(SOLVED).mean()
    found = ", ".join(f"{name} {count}" for name, count in cells["regime"].value_counts().items())
    return Finding.at_least(1.0, exactly(share), f"Regimes that measured defects of {len(cells)} cells give: {found}.")


def departs(evidence: Evidence) -> Finding:
    """Share of cells at sigma = 0.2 that leave their twin."""
    cells = evidence.cells(experiment="tracks", sigma=0.2, status="done")
    note = f"{len(cells)} cells of four architectures and three optimizers; a network has left its twin once outputs differ by 10 % rms."
    return Finding.at_least(0.9, share_of(cells["largest_divergence"] > 0.1), note)


def width_trend(evidence: Evidence) -> Finding:
    """Slope of log timing error against log width."""
    parts = [
        evidence.matched(architecture="mlp", experiment=experiment, optimizer="gd", sigma=0.001, source="network", tier="twin")
        for experiment in ("tracks", "widths")
    ]
    errors = [(width, error) for part in parts for width, rows in part.groupby("width") for error in cell_errors(rows)]
    widths, sizes = (np.log(values) for values in zip(*errors, strict=True))
    ends = f"{np.exp(widths.min()):.0f} to {np.exp(widths.max()):.0f}"
    note = f"Slope of ln(error) against ln(width) over {len(errors)} networks of widths {ends}."
    return Finding.at_most(-0.5, slope_of(widths, sizes), note)


def closer(architecture: str) -> Measure:
    """Largest gap in mode strength at sigma = 0.001 over that at 0.01, paired by seed."""

    def measure(evidence: Evidence) -> Finding:
        cells = [
            evidence.cells(architecture=architecture, experiment="tracks", optimizer="gd", sigma=sigma, status="done").set_index("seed")
            for sigma in (0.001, 0.01)
        ]
        ratio = (cells[0]["largest_mode_gap"] / cells[1]["largest_mode_gap"]).dropna()
        note = f"Median over {len(ratio)} seeds of gap(0.001) / gap(0.01), at width {cells[0]['width'].iloc[0]:g}."
        return Finding.at_most(0.5, median_of(ratio), note)

    return measure


def span(optimizer: str, weight_decay: float) -> Measure:
    """Timing of the twin under the optimizers of Corollary 2 that the tracks leave out."""
    given = {"experiment": "others", "source": "network", "tier": "twin", "sigma": 0.001, "architecture": "mixture_of_experts"}
    return timing(TIMING, **given, optimizer=optimizer, weight_decay=weight_decay)


CLAIMS = (
    Claim(
        "normal_form.solvable",
        "MLP, CNN and attention on Gaussian data are in a solvable regime.",
        "Theorems 4 to 7 (their conditions)",
        "default",
        solvable,
    ),
    Claim(
        "normal_form.digits",
        "On real handwritten digits, too, MLP, CNN and attention learn when their quadratic forms do (sigma = 0.01, within 5%).",
        "Theorem 1, Figure 7",
        "default",
        timing(TIMING, experiment="digits", source="network", tier="twin"),
    ),
    *(
        Claim(
            f"normal_form.timing_{kind}",
            f"At small initialisation (sigma = 0.001) a {name} learns each mode when its quadratic form does: ignition times agree within "
            f"{TIMING:.0%} (gradient descent).",
            "Theorem 1, Figure 2",
            "default",
            timing(TIMING, architecture=kind, optimizer="gd", **TRACKS),
        )
        for kind, name in NAMES.items()
    ),
    *(
        Claim(
            f"normal_form.timing_{optimizer}",
            f"Under {name} four modules learn each mode when their quadratic forms do (sigma = 0.001, within {TIMING:.0%}).",
            "Theorem 1, Figure 2",
            "default",
            timing(TIMING, optimizer=optimizer, **TRACKS),
        )
        for optimizer, name in OPTIMIZERS.items()
    ),
    Claim(
        "normal_form.timing_minibatches",
        f"On the same minibatches a mixture of experts learns when its quadratic form does (sigma = 0.001, within {TIMING:.0%}).",
        "Theorem 2, Corollary 2",
        "default",
        span("sgd", 0.0),
    ),
    Claim(
        "normal_form.timing_weight_decay",
        f"With weight decay 0.02 a mixture of experts learns when its quadratic form does (sigma = 0.001, within {TIMING:.0%}).",
        "Corollary 2",
        "default",
        span("gd", 0.02),
    ),
    Claim(
        "normal_form.large_start_departs",
        "At large initialisation (sigma = 0.2) networks leave their quadratic forms.",
        "Figure 2, section Limitations",
        "default",
        departs,
    ),
    Claim(
        "normal_form.width",
        "The wider a tanh MLP, the more exactly it follows its quadratic form: timing errors fall at least as width^-1/2 (sigma = 0.001).",
        "Theorem 1 (our measure of its remainder)",
        "default",
        width_trend,
    ),
    *(
        Claim(
            f"normal_form.smaller_is_closer_{kind}",
            f"A smaller initialisation brings a {name} closer to its quadratic form at all times: ten times smaller weights at least halve "
            "the largest gap in a mode's strength (an O(|W|^4) remainder at the start would).",
            "Theorem 1 read as a statement about training",
            "default",
            closer(kind),
        )
        for kind, name in NAMES.items()
    ),
)
