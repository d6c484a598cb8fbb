"""Sudden learning: when modes ignite, predicted without training, and what epsilon stands for."""

from __future__ import annotations

import numpy as np

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import exactly, median_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.claims.measures import Measure, cell_errors, timing

GIVEN = {"experiment": "tracks", "sigma": 0.001}
WHITE = {"mlp": "tanh MLP", "multi_head": "multi-head attention"}


def clock_with(scale: str) -> Measure:
    """First ignition over ln(1/scale) / r, scale being epsilon = degrees sigma^2 or sigma itself."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.matched(**GIVEN, architecture="multi_head", optimizer="gd", source="network", tier="asymptote", mode=1)
        ratio = rows["t_measured"] / rows["t_asymptotic"]
        if scale == "sigma":
            ratio = ratio * np.log(rows["epsilon"]) / np.log(rows["sigma"])
        note = f"Mode 1 of {len(rows)} multi-head attentions under gradient descent: measured step over ln(1/{scale}) / (learning rate r)."
        return Finding.equals(1.0, median_of(ratio), 0.2, note)

    return measure


def momentum_speed(evidence: Evidence) -> Finding:
    """Error of gradient-flow time under momentum, on twins: what the rule 1 / (1 - momentum) misses."""
    rows = evidence.matched(**GIVEN, architecture="multi_head", optimizer="momentum", source="twin", tier="flow")
    errors = rows["relative_error"].abs()
    count = rows["cell"].nunique()
    note = f"Twins of {count} multi-head attentions: flow clock at time 10 x learning rate x step; worst mode {errors.max():.1%}."
    return Finding.equals(0.0, median_of(cell_errors(rows)), 0.02, note, absolute=True)


def ordered(architecture: str) -> Measure:
    """Share of networks whose modes ignite in the order of their singular values."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.matched(**GIVEN, architecture=architecture, source="network", tier="twin")
        rows = rows[rows["optimizer"].isin(["gd", "momentum"])].sort_values("mode")
        in_order = rows.groupby("cell")["t_measured"].apply(lambda times: bool((np.diff(times) > 0).all()) and len(times) > 1)
        note = f"{int(in_order.sum())} of {len(in_order)} networks, under gradient descent and momentum."
        return Finding.at_least(1.0, exactly(in_order.mean()), note)

    return measure


def sudden(sigma: float) -> Measure:
    """Share of the ignitions of white modules that end a plateau."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.ignitions(experiment="tracks", optimizer="gd", source="network", tier="twin", sigma=sigma)
        rows = rows[rows["architecture"].isin(WHITE)]
        shares = rows.groupby("cell")["plateau_loss"].apply(lambda losses: losses.notna().mean())
        note = f"Share of ignitions that a plateau precedes: median over {len(shares)} networks with white inputs and four modes."
        found = median_of(shares)
        return Finding.at_least(0.75, found, note) if sigma < 0.01 else Finding.at_most(0.1, found, note)

    return measure


CLAIMS = (
    *(
        Claim(
            f"clocks.white_{kind}",
            f"Where inputs are white, logistic modes with effective seeds tell without training when a {name} learns each mode (sigma "
            "= 0.001, gradient descent, within 5%).",
            "Theorem 6, carried over to feedforward layers here",
            "default",
            timing(0.05, **GIVEN, architecture=kind, optimizer="gd", source="network", tier="discrete"),
        )
        for kind, name in WHITE.items()
    ),
    *(
        Claim(
            f"clocks.twin_{kind}",
            f"The clock of white inputs tells when the quadratic form of the {name} learns each mode, within 0.5%.",
            "Theorem 6, carried over to feedforward layers here",
            "default",
            timing(0.005, **GIVEN, architecture=kind, optimizer="gd", source="twin", tier="discrete"),
        )
        for kind, name in WHITE.items()
    ),
    Claim(
        "clocks.events_cnn",
        "Where inputs are correlated (CNN), the event clock tells without training when the quadratic form learns each mode (sigma "
        "= 0.001, within 5%).",
        "Event clock (not in the paper)",
        "default",
        timing(0.05, **GIVEN, architecture="cnn", optimizer="gd", source="twin", tier="event"),
    ),
    Claim(
        "clocks.momentum_multi_head",
        "Under momentum 0.9 the exact scalar recursion tells when the quadratic form learns each mode (within 0.5%).",
        "Corollary 2",
        "default",
        timing(0.005, **GIVEN, architecture="multi_head", optimizer="momentum", source="twin", tier="discrete"),
    ),
    Claim(
        "clocks.momentum_rule",
        "Momentum speeds every mode up by 1 / (1 - momentum): gradient-flow clocks hold at that rate (within 2%).",
        "Rule of thumb (not the paper's)",
        "default",
        momentum_speed,
    ),
    Claim(
        "clocks.epsilon",
        "Ignition at t = ln(1/epsilon) / r, epsilon = degrees x sigma^2 being the scale of the order parameter (within 20%).",
        "Sudden learning, clock of Theorem 6",
        "default",
        clock_with("epsilon"),
    ),
    Claim(
        "clocks.epsilon_is_sigma",
        "Ignition at t = ln(1/epsilon) / r with epsilon the standard deviation of the weights, as experiments name it (within 20%).",
        "Sudden learning, in the notation of the experiments",
        "default",
        clock_with("sigma"),
    ),
    *(
        Claim(
            f"clocks.order_{kind}",
            f"Modes of a {name} are learnt in the order of the target's singular values (in every network; sigma = 0.001).",
            "Section Sudden learning, Figure 2",
            "default",
            ordered(kind),
        )
        for kind, name in {**WHITE, "cnn": "CNN", "query_key": "query-key attention"}.items()
    ),
    Claim(
        "clocks.sudden_small",
        "At small initialisation (sigma = 0.001) learning is sudden: three in four ignitions or more end a plateau of the loss.",
        "Sudden learning, clock of Theorem 6",
        "default",
        sudden(0.001),
    ),
    Claim(
        "clocks.gradual_large",
        "At larger initialisation (sigma = 0.05) learning is gradual: at most one ignition in ten ends a plateau.",
        "Sudden learning, clock of Theorem 6",
        "default",
        sudden(0.05),
    ),
)
