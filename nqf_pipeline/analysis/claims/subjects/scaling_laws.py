"""Spectra of real tasks, exponents carried to the limit, compute-optimal splits, and sudden learning as a transition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import Estimate, exactly, span_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.collapse import transitions
from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.store.select import where
from nqf_pipeline.store.tables import TableError
from nqf_pipeline.study.config import WindowRule

CLOSE = 0.02
"""Share of an exponent within which it counts as the limit."""
FIRST_MODE = WindowRule().first_mode
"""Modes that ignite before the window of a fit opens are not counted in it, but for this one."""
LIMITS = {0.0: "4/3", 0.5: "1", 1.0: "4/5"}
Measure = Callable[[Evidence], Finding]


def rows(evidence: Evidence, table: str, **conditions: Any) -> pd.DataFrame:
    """Rows of one of this subject's tables."""
    try:
        found = where(getattr(evidence.study, table), **conditions)
    except TableError as error:
        raise Unresolved(str(error)) from None
    if found.empty:
        raise Unresolved(f"the table {table} has no row with {', '.join(f'{k} = {v}' for k, v in conditions.items())}")
    return found


# ---- spectra


def has_range(architecture: str) -> Measure:
    """1 where some convention of the spectrum has a power-law range."""

    def measure(evidence: Evidence) -> Finding:
        laws = rows(evidence, "spectral_laws", architecture=architecture, task="digits")
        best = laws.sort_values(["power_law", "modes"]).iloc[-1]
        if best["power_law"]:
            note = (
                f"Modes {best['first_mode']} to {best['last_mode']} of {best['modes']} ({best['convention']}): alpha1 "
                f"{best['alpha1']:.2f} ({best['alpha1_low']:.2f} to {best['alpha1_high']:.2f}), alpha2 {best['alpha2']:.2f} "
                f"({best['alpha2_low']:.2f} to {best['alpha2_high']:.2f})."
            )
        else:
            note = f"{best['modes']} modes ({best['convention']}): {best['reason']}."
        return Finding.equals(1.0, exactly(float(best["power_law"])), 0.0, note)

    return measure


# ---- limits


def fourier_finite(theta: float) -> Measure:
    """Fit at sigma = 1e-4 against the prediction for its window."""

    def measure(evidence: Evidence) -> Finding:
        (row,) = _long(evidence, theta)
        note = f"Window of {row['decades']:.1f} decades and {row['ignitions']:.0f} ignitions; the limit is {row['predicted_limit']:.3f}."
        return Finding.equals(float(row["predicted_finite"]), _interval(row, "exponent", "ci"), CLOSE, note)

    return measure


def fourier_plain(theta: float) -> Measure:
    """The same fit against the limit itself."""

    def measure(evidence: Evidence) -> Finding:
        (row,) = _long(evidence, theta)
        note = f"A straight line at sigma = 1e-4 with {row['ignitions'] + FIRST_MODE:.0f} modes ignited, uncorrected."
        return Finding.equals(float(row["predicted_limit"]), _interval(row, "exponent", "ci"), CLOSE, note)

    return measure


def _long(evidence: Evidence, theta: float) -> list[dict[str, Any]]:
    found = evidence.exponents(activation="linear", theta=theta, sigma=1e-4, source="twin")
    return list(found.to_dict("records"))[:1]


def fourier_limit(theta: float) -> Measure:
    """Carried to epsilon = 0."""

    def measure(evidence: Evidence) -> Finding:
        row = rows(evidence, "extrapolation", activation="linear", theta=theta, source="twin").iloc[0].to_dict()
        note = (
            f"From {row['epsilons']} epsilon down to {row['epsilon_low']:.0e}, {row['seeds']} seeds; with the theory's own shift "
            f"{row['shifted']:.3f} ({row['shifted_low']:.3f} to {row['shifted_high']:.3f})."
        )
        return Finding.equals(float(row["predicted_limit"]), _interval(row, "extrapolated", "ci"), CLOSE, note)

    return measure


def fourier_ignited(evidence: Evidence) -> Finding:
    """Modes that ignite in the runs that are fitted."""
    found = evidence.exponents(activation="linear", source="twin")
    note = f"Last ignited mode inside the window, over {len(found)} settings."
    return Finding.at_least(30.0, span_of(found["ignitions"] + FIRST_MODE), note)


def tanh_network(evidence: Evidence) -> Finding:
    """The network with tanh units beside its twin."""
    network = evidence.exponents(activation="tanh", source="network").sort_values("theta")
    twin = evidence.exponents(activation="tanh", source="twin").sort_values("theta")
    pairs = network.merge(twin, on="theta", suffixes=("", "_twin"))
    if pairs.empty:
        raise Unresolved("network and twin have no resolved exponent at the same theta")
    said = "; ".join(f"theta {r['theta']:g}: network {r['exponent']:.2f}, twin {r['exponent_twin']:.2f}" for r in pairs.to_dict("records"))
    return Finding.equals(0.0, span_of(pairs["exponent"] / pairs["exponent_twin"] - 1), 0.05, f"{said}.", absolute=True)


def ensembles_limit(flat: bool) -> Measure:
    """Relative error of extrapolated ensembles, over the grid."""

    def measure(evidence: Evidence) -> Finding:
        found = rows(evidence, "extrapolation", source="network", task="feature_power_law")
        profile = found["initial_profile"] if "initial_profile" in found else pd.Series(np.nan, index=found.index)
        found = found[(profile == 0) if flat else profile.isna()]
        if found.empty:
            raise Unresolved("no such ensemble was carried to the limit")
        plain = (found["exponent"] / found["predicted_limit"] - 1).abs().max()
        note = f"{len(found)} grid points; the fits at the smallest epsilon themselves are off by up to {plain:.1%}."
        return Finding.equals(0.0, span_of(found["relative_error"]), CLOSE, note, absolute=True)

    return measure


# ---- compute


def split(quantity: str, within: float) -> Measure:
    """Relative error of a trade-off exponent over all settings."""

    def measure(evidence: Evidence) -> Finding:
        found = rows(evidence, "tradeoffs", quantity=quantity, status="ok")
        ratio = found["exponent"] / found["predicted_limit"] - 1
        said = "; ".join(
            f"alpha1 {r.get('alpha1', np.nan):g}, alpha2 {r.get('alpha2', np.nan):g}: {r['exponent']:.3f} "
            f"({r['ci_low']:.3f} to {r['ci_high']:.3f}), predicted {r['predicted_limit']:.3f}"
            for r in found.to_dict("records")
        )
        return Finding.equals(0.0, span_of(ratio), within, f"{said}.", absolute=True)

    return measure


# ---- transition


def widths(architecture: str) -> Measure:
    """Power with which widths in tau shrink, over modes."""

    def measure(evidence: Evidence) -> Finding:
        found = rows(evidence, "collapse", architecture=architecture, source="network")
        note = f"{len(found)} modes at {found['epsilons'].max()} epsilon; slopes of the 10 to 90 % width in tau against ln ln(1/epsilon)."
        return Finding.equals(1.0, span_of(found["width_exponent"]), 0.05, note)

    return measure


def places(architecture: str) -> Measure:
    """Relative error of tau_c over modes."""

    def measure(evidence: Evidence) -> Finding:
        found = rows(evidence, "collapse", architecture=architecture, source="network")
        note = "Half-times over ln(1/epsilon), carried to epsilon = 0, against 1 / r_k."
        return Finding.equals(0.0, span_of(found["tau_c"] / found["tau_c_predicted"] - 1), 0.03, note, absolute=True)

    return measure


def collapsed(architecture: str) -> Measure:
    """Share of the spread of curves that rescaling leaves."""

    def measure(evidence: Evidence) -> Finding:
        found = rows(evidence, "collapse", architecture=architecture, source="network")
        note = (
            f"Quality S (Houdayer and Hartmann) up to {found['quality'].max():.2g}, without rescaling from {found['unscaled'].min():.2g}."
        )
        return Finding.at_most(0.05, span_of(found["variance_ratio"]), note)

    return measure


def separated(architecture: str) -> Measure:
    """Smallest separation of two steps at the smallest epsilon."""

    def measure(evidence: Evidence) -> Finding:
        chosen = (t for t in transitions(evidence.study) if t.key["architecture"] == architecture and t.key["source"] == "network")
        found = next(chosen, None)
        if found is None:
            raise Unresolved(f"no {architecture} was run at several epsilon until all modes had ignited")
        counts = ", ".join(f"{size.verdict.plateaus} of {size.verdict.steps} at {size.epsilon:.0e}" for size in found.sizes)
        note = f"Steps that follow a plateau: {counts}."
        return Finding.at_least(1.0, exactly(float(np.min(found.sizes[-1].verdict.separation))), note)

    return measure


def _interval(row: dict[str, Any], value: str, ends: str) -> Estimate:
    return Estimate(float(row[value]), float(row[f"{ends}_low"]), float(row[f"{ends}_high"]))


NAMES = {"diagonal": "modes of a diagonal network", "mlp": "modes of a tanh MLP"}
KINDS = {"mlp": "An MLP", "cnn": "A CNN", "multi_head": "Multi-head attention"}
CLAIMS = (
    *(
        Claim(
            f"spectra.digits_{kind}",
            f"{name} on handwritten digits has rates and loss shares with a common power-law range (assumed by the scaling laws).",
            "Scaling laws, assumption on spectra",
            "default",
            has_range(kind),
        )
        for kind, name in KINDS.items()
    ),
    Claim(
        "fourier_long.ignited",
        "Runs of the Fourier target that pose the question of a power law: at least 30 modes ignite.",
        "Figure 5, run longer",
        "fourier_long",
        fourier_ignited,
    ),
    *(
        claim
        for theta, limit in LIMITS.items()
        for claim in (
            Claim(
                f"fourier_long.finite_theta_{10 * theta:02.0f}",
                f"Fourier target, theta = {theta:g}, sigma = 1e-4: the exponent is the one predicted for its window (within {CLOSE:.0%}).",
                "Section on scaling laws, at finite size",
                "fourier_long",
                fourier_finite(theta),
            ),
            Claim(
                f"fourier_long.plain_theta_{10 * theta:02.0f}",
                f"Fourier target, theta = {theta:g}, sigma = 1e-4: a straight line finds the limit {limit} (within {CLOSE:.0%}).",
                "Figure 5",
                "fourier_long",
                fourier_plain(theta),
            ),
            Claim(
                f"fourier_long.limit_theta_{10 * theta:02.0f}",
                f"Fourier target, theta = {theta:g}: carried to epsilon = 0 the exponent is (2 beta - 1) / (theta + beta) = {limit} "
                f"(within {CLOSE:.0%}).",
                "Figure 5",
                "fourier_long",
                fourier_limit(theta),
            ),
        )
    ),
    Claim(
        "fourier_long.tanh",
        "The network with tanh units shows the exponent of its quadratic twin (within 5 %).",
        "Figure 5",
        "fourier_long",
        tanh_network,
    ),
    *(
        Claim(
            f"limit.{name}",
            f"Ensembles with {words}, carried to epsilon = 0 and infinitely many modes, have the exponent (alpha1 - 1) / alpha2 "
            f"(within {CLOSE:.0%}).",
            "Scaling laws",
            "limit",
            ensembles_limit(flat),
        )
        for name, words, flat in (("flat", "equal seeds", True), ("matched", "seeds in proportion to their plateaus", False))
    ),
    *(
        Claim(f"compute.{name}", statement, "Derived here from the scaling dynamics", "compute_optimal", split(quantity, within))
        for name, quantity, within, statement in (
            (
                "loss",
                "loss of compute",
                0.03,
                "At the best split of compute C = modes x time the loss falls as C^-((alpha1 - 1) / (1 + alpha2)).",
            ),
            ("modes", "modes of compute", 0.03, "The best number of modes grows as C^(1 / (1 + alpha2)), whatever alpha1."),
            ("learned", "loss of modes learnt", 0.03, "The loss falls as k^-(alpha1 - 1) with the number k of modes learnt."),
        )
    ),
    *(
        Claim(
            f"collapse.{name}_{kind}", statement.format(words), "Section on sudden learning, finite-size scaling", "collapse", measure(kind)
        )
        for kind, words in NAMES.items()
        for name, statement, measure in (
            ("width", "Steps of the {} sharpen in tau = t / ln(1/epsilon) as 1 / ln(1/epsilon) (power within 5 %).", widths),
            ("place", "Carried to epsilon = 0, the {} ignite at tau = 1 / r_k (within 3 %).", places),
            ("curves", "Curves of the {} at all epsilon collapse: at most 5 % of their spread is left.", collapsed),
            ("separated", "At the smallest epsilon a plateau precedes every step of the {}.", separated),
        )
    ),
)
