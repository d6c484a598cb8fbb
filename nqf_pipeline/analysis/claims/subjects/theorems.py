"""Theorems 2 and 3 and Corollary 2: M = W W^T closes on itself, and few units do the work of many (config/paper/theorems.yaml)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import span_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.store.select import Curves

STUDY = "theorems"
ROUNDING = 1e-9
"""Relative differences of losses up to this are rounding: float64 over 1,000 steps."""
SINGLE = 1e-5
"""The same in float32."""
STEPS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "descent": ("gradient descent", "Theorem 2", {"optimizer": "gd", "weight_decay": 0.0}),
    "minibatches": ("minibatch descent, batch by batch", "Theorem 2", {"optimizer": "sgd"}),
    "momentum": ("momentum", "Corollary 2", {"optimizer": "momentum"}),
    "decay": ("weight decay", "Corollary 2", {"optimizer": "gd", "weight_decay": 0.02}),
}
SAME = ("architecture", "width", "optimizer", "weight_decay", "sigma", "seed")
"""Coordinates that a compressed twin shares with its full one."""


def closed(conditions: dict[str, Any], bound: float = ROUNDING) -> Callable[[Evidence], Finding]:
    """Largest relative distance of the loss that the recurrence of M predicts from that of twins trained in weight space."""

    def measure(evidence: Evidence) -> Finding:
        worst = []
        for curves in evidence.curves("theory_loss", "twin_loss", **conditions):
            found, trained = curves.theory("theory_loss", "discrete"), curves.of("twin_loss")
            if found is None or trained is None:
                raise Unresolved(f"cell {curves.cell['cell']} has no discrete tier")
            worst.append(float(np.max(np.abs(found / trained - 1))))
        return Finding.at_most(bound, span_of(worst), f"Largest relative difference at any record in each of {len(worst)} twins.")

    return measure


def compressed(evidence: Evidence) -> Finding:
    """Largest relative distance of losses of full and compressed twins from the same weights."""
    full = {_key(curves): curves for curves in evidence.curves("twin_loss", experiment="closed")}
    worst, widths = [], []
    for curves in evidence.curves("twin_loss", experiment="compressed"):
        partner = full.get(_key(curves))
        if partner is None:
            raise Unresolved(f"cell {curves.cell['cell']} has no full twin beside it")
        worst.append(float(np.max(np.abs(curves.data["twin_loss"].to_numpy() / partner.data["twin_loss"].to_numpy() - 1))))
        widths.append(int(partner.cell["twin_width"]) / int(curves.cell["twin_width"]))
    note = f"{len(worst)} twins with {min(widths):.2g} to {max(widths):.2g} times fewer units; largest relative difference at any record."
    return Finding.at_most(ROUNDING, span_of(worst), note)


def _key(curves: Curves) -> tuple[Any, ...]:
    return tuple(curves.cell[name] for name in SAME)


CLAIMS = (
    *(
        Claim(
            f"theorem2.{name}",
            f"Under {what}, M = W W^T follows its own recurrence: it gives the loss of training in weight space at every step.",
            source,
            STUDY,
            closed({"experiment": "closed", **conditions}),
        )
        for name, (what, source, conditions) in STEPS.items()
    ),
    Claim(
        "theorem2.any_loss",
        "The recurrence of M holds for any loss: softmax cross-entropy on the ten digits, MLP, CNN and attention.",
        "Theorem 2",
        "digits_classes",
        closed({"optimizer": "gd"}, SINGLE),
    ),
    Claim(
        "theorem3.compressed",
        "A quadratic form trained with as few units as its data span directions, and one more, has the loss of the wide one at every step.",
        "Theorem 3",
        STUDY,
        compressed,
    ),
)
