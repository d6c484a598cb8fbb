"""Plateaus and sudden drops: do losses drop where ignitions are predicted, one drop a mode?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import Estimate, exactly, mean_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.claims.measures import Measure
from nqf_pipeline.analysis.windows import Unresolved

SMALL = 1e-7
"""Epsilons below which steps of rates a factor of two apart are apart on any curve."""

TIMED = 0.02
"""How well drops are timed: within 1.6 % on exact logistic staircases of two separate modes and 128 to 512 records."""


def at_predicted(tier: str, within: float, share: float = 1.0, most: float = float("inf"), **conditions: Any) -> Measure:
    """Share of drops, due or seen, that are matched to a prediction within a share of its step."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.drops(source="network", tier=tier, **conditions)
        rows = rows[rows["epsilon"] < most]
        if rows.empty:
            raise Unresolved(f"no drop is seen in full, or is due, at an epsilon below {most:g}")
        near = (rows["status"] == "matched") & (rows["relative_error"].abs() <= within)
        counts = rows["status"].value_counts()
        alone = counts.get("unmatched_plateau", 0) + counts.get("unmatched_mode", 0)
        worst = rows["relative_error"].abs().max()
        note = f"{near.sum()} of {len(rows)} drops of {rows['cell'].nunique()} networks; {alone} without partner, worst error {worst:.2%}."
        return Finding.at_least(share, _over_networks(rows, near.groupby(rows["cell"]).mean()), note)

    return measure


def drops_per_mode(tier: str, **conditions: Any) -> Measure:
    """Share of the modes with a drop of their own, among modes whose drops are due or seen."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.drops(source="network", tier=tier, **conditions)
        rows = rows[rows["mode_numbers"] != ""]
        modes = rows["mode_numbers"].str.split("-").str.len()
        own = (rows["status"] == "matched") & (modes == 1)
        shares = own.groupby(rows["cell"]).sum() / modes.groupby(rows["cell"]).sum()
        note = f"{len(shares)} networks with {modes.sum()} modes due or seen, {own.sum()} of them in a drop of their own."
        return Finding.at_least(1.0, _over_networks(rows, shares), note)

    return measure


def _over_networks(rows: pd.DataFrame, share: pd.Series) -> Estimate:
    """Mean over networks, whose drops are not independent of one another; without spread where no network is drawn (one seed)."""
    if rows["seed"].nunique() < 2:
        return exactly(share.mean())
    found = mean_of(share)
    return Estimate(found.value, max(found.low, 0.0), min(found.high, 1.0))


CLAIMS = (
    Claim(
        "drops.features",
        "The loss of orthogonal features drops where closed forms let them ignite, and nowhere else (every drop within 2%, epsilon below "
        "1e-7).",
        "Theorem 6, sudden learning",
        "fig3",
        at_predicted("flow", TIMED, most=SMALL, task="orthogonal_features", weight_decay=0.0),
    ),
    Claim(
        "drops.features_paper",
        "At epsilon = 1e-5 every one of five features makes a drop of its own, told apart on the loss in log time as `nqf fit` does.",
        "Figure 3 left",
        "fig3",
        drops_per_mode("flow", task="orthogonal_features", epsilon=1e-5, weight_decay=0.0),
    ),
    Claim(
        "drops.samples",
        "The loss of orthogonal samples drops where exact steps of their scalar equations let them ignite, and nowhere else (every drop "
        "within 2%, epsilon below 1e-7).",
        "Theorem 5, sudden learning",
        "fig4",
        at_predicted("discrete", TIMED, most=SMALL, task="orthogonal_samples"),
    ),
    Claim(
        "drops.mlp",
        "Losses of tanh MLPs drop where exact steps of the quadratic form let modes ignite (95% of the drops within 10%, sigma = 0.001).",
        "Sudden learning, Theorem 1",
        "default",
        at_predicted("discrete", 0.1, share=0.95, architecture="mlp", task="teacher", sigma=0.001),
    ),
    Claim(
        "drops.multi_head",
        "Losses of multi-head attentions drop where exact steps of the quadratic form let modes ignite (95% of the drops within 10%, "
        "sigma = 0.001).",
        "Sudden learning, Theorem 1",
        "default",
        at_predicted("discrete", 0.1, share=0.95, architecture="multi_head", task="teacher", sigma=0.001),
    ),
    Claim(
        "drops.mlp_own",
        "Every mode of a tanh MLP makes a drop of its own, told apart on the loss in log time as `nqf fit` does (sigma = 0.001, singular "
        "values a factor of two apart).",
        "Sudden learning",
        "default",
        drops_per_mode("discrete", architecture="mlp", task="teacher", sigma=0.001),
    ),
)
