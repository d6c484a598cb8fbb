"""Adam, which leaves the linear span: what its own eps does, from trained networks and twins alone."""

from __future__ import annotations

import pandas as pd

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import median_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.windows import Unresolved

STUDY = "adam"


def twins(evidence: Evidence, **conditions: object) -> pd.DataFrame:
    """Ignition steps of twins, `step` by eps, sigma, seed and mode: as a network's rows hold them for comparison."""
    rows = evidence.matched(source="network", tier="twin", **conditions)
    return rows.assign(step=rows["t_predicted"])


def beside_descent(evidence: Evidence, eps: float) -> tuple[pd.Series, pd.Series]:
    """(steps of Adam's twins, steps of gradient descent's twins) for the same weights, data and modes."""
    keys = ["sigma", "seed", "mode"]
    adam = twins(evidence, experiment="descent", optimizer="adam", eps=eps).set_index(keys)["step"]
    plain = twins(evidence, experiment="descent", optimizer="gd").set_index(keys)["step"]
    both = adam.index.intersection(plain.index)
    if both.empty:
        raise Unresolved(f"no mode ignites under both Adam at eps = {eps:g} and gradient descent")
    return adam[both], plain[both]


def descends(evidence: Evidence) -> Finding:
    """Difference of ignition at large eps."""
    spoken = []
    for eps in (1.0, 10.0, 100.0):
        adam, plain = beside_descent(evidence, eps)
        spoken.append(f"eps {eps:g}: {(adam / plain - 1).abs().median():.2%}")
    adam, plain = beside_descent(evidence, 100.0)
    note = f"{len(adam)} modes of twins at learning_rate / eps = 5e-4, median difference to gradient descent at 5e-4 ({', '.join(spoken)})."
    return Finding.at_most(0.02, median_of((adam / plain - 1).abs()), note)


def eps_matters(evidence: Evidence) -> Finding:
    """Ignition at eps = 1e-4 over that at 1e-12, at the smallest weights."""
    keys = ["sigma", "seed", "mode"]
    found = {eps: twins(evidence, experiment="usual", eps=eps).set_index(keys)["step"] for eps in (1e-12, 1e-10, 1e-8, 1e-6, 1e-4)}
    base = found[1e-12]
    spoken = []
    for sigma in sorted(base.index.unique("sigma"), reverse=True):
        ratios = [(steps.xs(sigma, level="sigma") / base.xs(sigma, level="sigma")).median() for steps in found.values()]
        spoken.append(f"sigma {sigma:g}: {', '.join(f'{ratio:.3f}' for ratio in ratios)}")
    smallest = base.index.unique("sigma").min()
    ratio = (found[1e-4].xs(smallest, level="sigma") / base.xs(smallest, level="sigma")).dropna()
    note = f"Median ignition step over that at eps = 1e-12, for eps = 1e-12, 1e-10, 1e-8, 1e-6, 1e-4 ({'; '.join(spoken)})."
    return Finding.at_least(1.02, median_of(ratio), note)


CLAIMS = (
    Claim(
        "adam.descends_at_large_eps",
        "With eps far above every gradient Adam is gradient descent at learning rate learning_rate / eps (not in the paper).",
        "Section Limitations",
        STUDY,
        descends,
    ),
    Claim(
        "adam.eps_delays",
        "At small weights gradients fall below Adam's own eps, and a larger eps (1e-4 against 1e-12) delays ignition (not in the paper).",
        "Section Limitations",
        STUDY,
        eps_matters,
    ),
)
