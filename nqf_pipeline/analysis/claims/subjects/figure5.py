"""Figure 5 of the paper: a Fourier target through features of power-law strength, and through the raw input."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import Estimate, exactly, median_of, span_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.claims.measures import Measure, timing
from nqf_pipeline.analysis.curves import Series, describe
from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.store.select import where

STUDY = "fig5"
THETAS = (0.0, 0.5, 1.0)
RATE, LONG = 0.02, 1.0
"""Learning rates of the paper's run and of the long one."""


def fits(evidence: Evidence, source: str, theta: float, rate: float) -> pd.Series:
    """The row of one fit, resolved or not."""
    rows = where(evidence.study.exponents, task="fourier", source=source, learning_rate=rate, theta=theta)
    if rows.empty:
        raise Unresolved(f"the study has no Fourier networks with theta = {theta:g} and learning rate {rate:g}")
    return rows.iloc[0]


def papers_run(theta: float) -> Measure:
    """Exponent in 30,000 steps against the limit."""

    def measure(evidence: Evidence) -> Finding:
        network, twin = (fits(evidence, source, theta, RATE) for source in ("network", "twin"))
        if network["status"] != "ok":
            raise Unresolved(
                f"no exponent: {network['reason']}. A straight line through all records has slope {network['exponent']:.2f} "
                f"({network['ci_low']:.2f} to {network['ci_high']:.2f}) for networks and {twin['exponent']:.2f} for twins; the limit is "
                f"{network['predicted_limit']:.2f}."
            )
        return _against(network, network["predicted_limit"])

    return measure


def long_run(source: str, theta: float, prediction: str) -> Measure:
    """Exponent of the long run against the limit or the finite-size prediction."""
    return lambda evidence: _resolved(fits(evidence, source, theta, LONG), prediction)


def _resolved(row: pd.Series, prediction: str) -> Finding:
    if row["status"] != "ok":
        raise Unresolved(str(row["reason"]))
    return _against(row, row[prediction])


def _against(row: pd.Series, predicted: float) -> Finding:
    note = f"{row['seeds']:.0f} seeds, {row['ignitions']:.0f} ignitions in {row['decades']:.2f} decades, {row['ci_method']}."
    return Finding.equals(predicted, Estimate(row["exponent"], row["ci_low"], row["ci_high"]), 0.05, note)


def ignited(evidence: Evidence) -> Finding:
    """Modes that networks learn in the paper's run."""
    rows = evidence.ignitions(task="fourier", experiment="fourier", source="network", tier="twin")
    counts = rows.groupby(["theta", "cell"])["t_measured"].count()
    medians = ", ".join(f"{count:g} (theta = {theta:g})" for theta, count in counts.groupby("theta").median().items())
    return Finding.at_least(10, span_of(counts), f"Modes at half strength within 30,000 steps, medians: {medians}; {len(counts)} networks.")


def follows(evidence: Evidence) -> Finding:
    """Largest gap in mode strength between network and twin, paper's run."""
    cells = evidence.cells(task="fourier", experiment="fourier", status="done")
    note = f"{len(cells)} networks. On the first plateau a_1 saturates the tanh, at any sigma."
    return Finding.at_most(0.1, median_of(cells["largest_mode_gap"]), note)


def raw_law(evidence: Evidence) -> Finding:
    """Raw-input networks whose loss curve has a resolved power law, by the fit for anyone's curves."""
    curves = evidence.curves("network_loss", task="fourier_raw")
    found = []
    for curve in curves:
        loss = curve.of("network_loss")
        if loss is not None:
            (described,) = describe(Series(str(curve.cell["cell"]), "time", curve.time[1:], loss[1:]))
            found.append(described)
    reasons = sorted({described.reason for described in found if described.reason})
    with_law = float(np.mean([described.law is not None for described in found]))
    note = f"Share of {len(found)} networks whose loss has a law by `nqf fit`; otherwise: {'; '.join(reasons)}."
    return Finding.at_most(0.0, exactly(with_law), note)


def raw_level(evidence: Evidence) -> Finding:
    """Loss that the raw-input network ends at, against the floor of its quadratic form."""
    cells = evidence.cells(task="fourier_raw", status="done")
    ratio = cells["network_loss"] / cells["twin_loss"]
    level = cells["network_loss"].median()
    return Finding.equals(1.0, median_of(ratio), 0.01, f"Final loss {level:.4f} (median of {len(cells)}), over that of its twin.")


CLAIMS = (
    *(
        Claim(
            f"figure5.paper_theta_{theta:g}".replace("0.5", "half"),
            f"At the paper's setting (30,000 steps, theta = {theta:g}) the exponent is (2 beta - 1)/(theta + beta) (within 5%).",
            "Figure 5",
            STUDY,
            papers_run(theta),
        )
        for theta in THETAS
    ),
    Claim(
        "figure5.modes",
        "At the paper's setting the exponent rests on many features: at least ten of 64 are learnt within 30,000 steps.",
        "Figure 5 (our condition for an exponent)",
        STUDY,
        ignited,
    ),
    Claim(
        "figure5.follows_twin",
        "At the paper's setting networks follow their quadratic forms (strengths within 0.1).",
        "Figure 5 as an instance of Theorem 1",
        STUDY,
        follows,
    ),
    Claim(
        "figure5.clock",
        "Logistic modes tell when the quadratic form learns each Fourier feature (long run, within 1%).",
        "Theorem 6, Figure 5",
        STUDY,
        timing(0.01, task="fourier", experiment="long", source="twin", tier="discrete"),
    ),
    *(
        Claim(
            f"figure5.twin_theta_{theta:g}".replace("0.5", "half"),
            f"In a run that learns 30 features the twin's exponent (theta = {theta:g}) is that predicted for its window (within 5%).",
            "Figure 5, at finite size",
            STUDY,
            long_run("twin", theta, "predicted_finite"),
        )
        for theta in THETAS
    ),
    *(
        Claim(
            f"figure5.network_theta_{theta:g}".replace("0.5", "half"),
            f"In a run that learns 30 features the network's exponent at theta = {theta:g} is (2 beta - 1)/(theta + beta) (within 5%).",
            "Figure 5",
            STUDY,
            long_run("network", theta, "predicted_limit"),
        )
        for theta in THETAS
    ),
    Claim(
        "figure5.raw_no_law",
        "A tanh MLP with 256 hidden units on the raw input shows no power law.",
        "Figure 5",
        STUDY,
        raw_law,
    ),
    Claim(
        "figure5.raw_level",
        "On the raw input an MLP stays on the plateau of its quadratic form, which learns the part of the target along x only (within 1%).",
        "Theorem 1",
        STUDY,
        raw_level,
    ),
)
