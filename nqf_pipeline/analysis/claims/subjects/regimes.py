"""Theorems 4, 5, 6, 7 and 16 and Proposition 7: recognised from the data, and solved as they say (config/paper/regimes.yaml)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import share_of, span_of
from nqf_pipeline.analysis.claims.evidence import Evidence

STUDY = "regimes"
ROUNDING = 1e-6
"""Strengths that agree up to this are the same: float64 over thousands of steps from seeds of 1e-5."""
THEOREMS = {
    "proportional": ("proportional_samples", "Theorem 4", "A_mu = c_mu A: one scalar equation"),
    "orthogonal_samples": ("orthogonal_samples", "Theorem 5", "A_mu A_nu = 0: one scalar equation a sample"),
    "orthogonal_features": ("orthogonal_features", "Theorem 6", "C_kj = 0: every mode is logistic by itself"),
    "isotropic": ("isotropic", "Theorem 7", "isotropic samples: M obeys a Riccati equation"),
    "projected": ("general", "Theorem 16", "M in the span of projectors: each strength is logistic"),
    "commuting": (
        "lotka_volterra",
        "Assumption 1, Proposition 7",
        "commuting structures: Lotka-Volterra, off-diagonal elements slaved",
    ),
}
TWO_FACTORS = {"isotropic": "whitened_feedforward"}
"""What an ensemble is for two factors, where it is another regime."""


def strengths(experiment: str, regime: str) -> Callable[[Evidence], Finding]:
    """Largest distance of recorded strengths, predicted step by step and trained."""

    def measure(evidence: Evidence) -> Finding:
        worst = []
        for curves in evidence.curves("theory_mode", "twin_mode", experiment=experiment, regime=regime):
            found, trained = curves.theory("theory_mode", "discrete"), curves.of("twin_mode")
            if found is None or trained is None:
                return Finding.unresolved(f"cell {curves.cell['cell']} has no discrete tier")
            worst.append(float(np.max(np.abs(found - trained))))
        note = f"Largest difference of a recorded strength in each of {len(worst)} cells: gd, momentum and weight decay, two sigmas."
        return Finding.at_most(ROUNDING, span_of(worst), note)

    return measure


def recognised(evidence: Evidence) -> Finding:
    """Share of cells whose measured regime is the one their ensemble was built for."""
    hits = []
    for experiment, (regime, *_) in THEOREMS.items():
        cells = evidence.cells(experiment=experiment)
        expected = np.where(cells["architecture"] == "matrix_sensing", TWO_FACTORS.get(experiment, regime), regime)
        hits += (cells["regime"] == expected).to_list()
    return Finding.at_least(0.98, share_of(hits), f"{sum(hits)} of {len(hits)} cells of six ensembles.")


def expected_error(evidence: Evidence) -> Finding:
    """Share of ignition times of nearly solvable cells that stray no further than estimated."""
    table = evidence.matched(experiment="nearly", source="twin", tier="discrete").set_index("cell")
    estimate = {curves.cell["cell"]: float(curves.cell["timing_error"]) for curves in evidence.curves(experiment="nearly")}
    bound = np.array([estimate[cell] for cell in table.index])
    # Cells without a solvable regime have no estimate.
    table, bound = table[np.isfinite(bound)], bound[np.isfinite(bound)]
    hits = table["relative_error"].abs().to_numpy() <= np.maximum(bound, 1e-3)
    note = f"{hits.sum()} of {len(hits)} times within the estimate (or 0.1 %); worst error {table['relative_error'].abs().max():.2%}."
    return Finding.at_least(0.8, share_of(hits), note)


CLAIMS = (
    *(
        Claim(
            f"regimes.{experiment}",
            f"{what.capitalize()}, step for step under gradient descent with momentum or weight decay, from Gaussian weights of any rank.",
            source,
            STUDY,
            strengths(experiment, regime),
        )
        for experiment, (regime, source, what) in THEOREMS.items()
    ),
    Claim(
        "regimes.recognised",
        "Which solution a cell admits can be measured on its structure and targets, in whatever basis (98 % of cells).",
        "Theorems 4 to 7 and 16, Assumption 1",
        STUDY,
        recognised,
    ),
    Claim(
        "regimes.expected_error",
        "Where a condition holds nearly, the measured defect bounds how far ignition times stray (8 of 10 times; calibrated for 9).",
        "section 3 (this project's estimate)",
        STUDY,
        expected_error,
    ),
)
