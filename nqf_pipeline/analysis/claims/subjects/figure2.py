"""Figure 2 of the paper: real modules beside their quadratic forms, on Gaussian samples."""

from __future__ import annotations

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import median_of, span_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.claims.measures import Measure, timing

STUDY = "fig2"
SMALL, LARGE = 0.01, 0.2
OPTIMIZERS = {"gd": "gradient descent", "momentum": "momentum 0.9", "adam": "Adam"}
MODULES = {"mlp": "tanh MLP", "cnn": "CNN", "query_key": "query-key attention", "multi_head": "multi-head attention"}
VISIBLE = 0.1
"""Difference in a recovered strength that a reader of the figure sees."""


def gap(architecture: str) -> Measure:
    """Largest difference of a mode's strength between network and twin at sigma = 0.01, every network."""

    def measure(evidence: Evidence) -> Finding:
        cells = evidence.cells(architecture=architecture, sigma=SMALL, status="done")
        note = f"{len(cells)} networks under three optimizers: median and range of the largest gap over all modes and times."
        return Finding.at_most(VISIBLE, span_of(cells["largest_mode_gap"]), note)

    return measure


def parts(evidence: Evidence) -> Finding:
    """The same at sigma = 0.2, median over networks."""
    cells = evidence.cells(sigma=LARGE, status="done")
    note = f"Median over {len(cells)} networks, four modules and three optimizers, of the largest gap in a mode's strength."
    return Finding.at_least(2 * VISIBLE, median_of(cells["largest_mode_gap"]), note)


def overshoot(evidence: Evidence) -> Finding:
    """Strength of the strongest mode of the MLP's quadratic part at the end."""
    curves = evidence.curves("network_mode", architecture="mlp", sigma=SMALL)
    final = [float(values[-1, 0]) for curve in curves if (values := curve.of("network_mode")) is not None]
    note = f"Mode 1 of {len(final)} MLPs at the last step: strength of sum v_i u_i^T, the part of the network that Theorem 1 keeps."
    return Finding.equals(1.0, span_of(final), 0.02, note)


CLAIMS = (
    *(
        Claim(
            f"figure2.timing_{kind}",
            f"At sigma = {SMALL} under {name} all four modules learn each mode when their quadratic forms do (within 5%).",
            "Figure 2",
            STUDY,
            timing(0.05, sigma=SMALL, optimizer=kind, source="network", tier="twin"),
        )
        for kind, name in OPTIMIZERS.items()
    ),
    *(
        Claim(
            f"figure2.gap_{kind}",
            f"At sigma = {SMALL} the recovered strengths of a {name} are those of its quadratic form at all times (within {VISIBLE}).",
            "Figure 2",
            STUDY,
            gap(kind),
        )
        for kind, name in MODULES.items()
    ),
    Claim(
        "figure2.departs",
        f"At sigma = {LARGE} networks visibly depart from their quadratic forms (by {2 * VISIBLE} in some strength).",
        "Figure 2",
        STUDY,
        parts,
    ),
    Claim(
        "figure2.plateau",
        f"At sigma = {SMALL} the quadratic part of an MLP ends at the target's strengths (within 2%).",
        "Figure 2",
        STUDY,
        overshoot,
    ),
)
