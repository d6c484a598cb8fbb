"""Theorem 1: a module near zero weights is its quadratic form, measured as network against same-start twin."""

from __future__ import annotations

from collections.abc import Callable

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import median_of, share_of
from nqf_pipeline.analysis.claims.evidence import Evidence

TIMING = 0.05
"""Share of an ignition time within which a twin counts as telling it."""
NAMES = {"mlp": "tanh MLP 20-64-8", "cnn": "CNN", "query_key": "query-key attention", "multi_head": "multi-head attention"}


def timing(architecture: str) -> Callable[[Evidence], Finding]:
    """Median error of the twin's ignition times at small sigma."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.matched(architecture=architecture, experiment="tracks", source="network", tier="twin", optimizer="gd", sigma=0.001)
        errors = rows["relative_error"].abs()
        note = f"Median over {len(rows)} modes under gradient descent, worst {errors.max():.2%}."
        return Finding.equals(0.0, median_of(errors), TIMING, note, absolute=True)

    return measure


def departs(evidence: Evidence) -> Finding:
    """Share of cells at sigma = 0.2 that leave their twin."""
    cells = evidence.cells(experiment="tracks", sigma=0.2, status="done")
    note = f"{len(cells)} cells of four architectures and three optimizers; a network has left its twin once outputs differ by 10 % rms."
    return Finding.at_least(0.9, share_of(cells["largest_divergence"] > 0.1), note)


CLAIMS = (
    *(
        Claim(
            f"normal_form.timing_{kind}",
            f"At small initialisation (sigma = 0.001) a {name} learns each mode when its quadratic form does: ignition times agree within "
            f"{TIMING:.0%}.",
            "Theorem 1, Figure 2",
            "default",
            timing(kind),
        )
        for kind, name in NAMES.items()
    ),
    Claim(
        "normal_form.large_start_departs",
        "At large initialisation (sigma = 0.2) networks leave their quadratic forms.",
        "Figure 2, section Limitations",
        "default",
        departs,
    ),
)
