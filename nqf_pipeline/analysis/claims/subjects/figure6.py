"""Figure 6 of the paper: online SGD against a teacher network, beside the twin on the same fresh batches."""

from __future__ import annotations

import numpy as np

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import mean_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.claims.measures import Measure

STUDY = "fig6"
MODULES = {"mlp": "the MLP 20-100-1", "query_key": "query-key attention"}
FOLLOWS = 0.1
"""Distance of outputs (rms over rms target) up to which a twin counts as following."""


def furthest(architecture: str) -> Measure:
    """Largest distance of outputs during training, and when the first tenth is passed."""

    def measure(evidence: Evidence) -> Finding:
        cells = evidence.cells(architecture=architecture, status="done")
        parted = np.isfinite(cells["departure_step"])
        when = f"; {int(parted.sum())} of them part, from step {cells['departure_step'][parted].min():g} on" if parted.any() else ""
        note = f"Mean over {len(cells)} seeds of the largest distance on held-out samples{when}."
        return Finding.at_most(FOLLOWS, mean_of(cells["largest_divergence"]), note)

    return measure


def ends(architecture: str) -> Measure:
    """Held-out loss of network and twin at the last step, relative to the loss at the start."""

    def measure(evidence: Evidence) -> Finding:
        curves = evidence.curves("network_test_loss", "twin_test_loss", architecture=architecture)
        values = [[curve.data[f"{source}_test_loss"].to_numpy() for source in ("network", "twin")] for curve in curves]
        shares = [(twin[-1] - network[-1]) / network[0] for network, twin in values]
        losses = [np.mean([pair[source][-1] for pair in values]) for source in (0, 1)]
        note = (
            f"(Twin's last loss - network's) / first loss, mean over {len(curves)} seeds; last losses {losses[0]:.3g} (network) and "
            f"{losses[1]:.3g} (twin)."
        )
        return Finding.equals(0.0, mean_of(shares), 0.01, note, absolute=True)

    return measure


CLAIMS = (
    *(
        Claim(
            f"figure6.{kind}_follows",
            f"Online SGD from sigma = 1e-3: outputs of {name} stay within a tenth of the target of its NQF's over 2000 steps.",
            "Figure 6",
            STUDY,
            furthest(kind),
        )
        for kind, name in MODULES.items()
    ),
    *(
        Claim(
            f"figure6.{kind}_ends",
            f"Online SGD: {name} and its NQF end at the same loss on fresh samples, up to 1 % of the loss at the start.",
            "Figure 6",
            STUDY,
            ends(kind),
        )
        for kind, name in MODULES.items()
    ),
)
