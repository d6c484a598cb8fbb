"""Measures of staircases in which every mode learns by itself (figures 3 and 4 of the paper)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.claims.claim import Finding
from nqf_pipeline.analysis.claims.estimate import Estimate, exactly, span_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.claims.measures import Measure, flow_times, log_epsilon, scaled, sizes, slope_of
from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.theory.ignition import crossing

SMALL = 1e-7
"""Epsilons below which ignition times are taken as linear in ln(1/epsilon)."""


def clock_rates(task: str, within: float) -> Measure:
    """Slope of each mode's ignition time against ln(1/epsilon), times its rate: 1."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.matched(task=task, source="network", tier="asymptote", seed=0, weight_decay=0.0)
        rows = rows[rows["epsilon"] < SMALL]
        slopes = [_slope(group, flow_times(group)) for _, group in rows.groupby("mode")]
        if not slopes:
            raise Unresolved(f"no ignition at an epsilon below {SMALL:g}")
        found = Estimate(float(np.median([s.value for s in slopes])), min(s.low for s in slopes), max(s.high for s in slopes))
        note = f"Slope over {rows['epsilon'].nunique()} epsilons below {SMALL:g}, times the rate: median of {len(slopes)} modes."
        return Finding.equals(1.0, found, within, note)

    return measure


def _slope(group: pd.DataFrame, times: pd.Series) -> Estimate:
    rate = float((log_epsilon(group) / flow_times(group, "t_asymptotic")).iloc[0])
    return scaled(slope_of(log_epsilon(group), times), rate)


def widening(task: str) -> Measure:
    """Time between first and last ignition against ln(1/epsilon), over what the asymptote gives."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.matched(task=task, source="network", tier="asymptote", seed=0, weight_decay=0.0)
        rows = rows[rows["epsilon"] < SMALL].assign(time=flow_times, limit=lambda frame: flow_times(frame, "t_asymptotic"))
        ends = rows.groupby("epsilon")[["time", "limit"]].agg(["min", "max"])
        if len(ends) < 3:
            raise Unresolved("fewer than three epsilons")
        size = -np.log(ends.index.to_numpy(float))
        predicted = float(((ends["limit"]["max"] - ends["limit"]["min"]) / size).iloc[0])
        note = f"Slope of t_last - t_first against ln(1/epsilon), over {len(ends)} epsilons; flow time."
        return Finding.equals(predicted, slope_of(size, ends["time"]["max"] - ends["time"]["min"]), 0.01, note)

    return measure


def plateau_count(task: str, epsilon: float, expected: int) -> Measure:
    """Plateaus of the loss, in every network at one epsilon."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.ignitions(task=task, source="network", tier="asymptote", epsilon=epsilon, weight_decay=0.0)
        counts = rows.groupby("cell")["plateau_loss"].count()
        return Finding.equals(expected, span_of(counts), 0.0, f"Stretches flatter than the drops beside them; networks: {len(counts)}.")

    return measure


def plateau_heights(task: str, epsilon: float, within: float) -> Measure:
    """Largest distance of a plateau from the loss that the modes not yet ignited contribute as epsilon -> 0."""

    def measure(evidence: Evidence) -> Finding:
        curves = evidence.curves("theory_loss", "theory_ignition", task=task, epsilon=epsilon, weight_decay=0.0)
        ratios = np.array([ratio for curve in curves for ratio in _ratios(evidence, curve)])
        if not len(ratios):
            raise Unresolved("the loss has no plateaus")
        note = (
            f"{len(ratios)} plateaus, each where it is flattest, over its height as epsilon -> 0: {ratios.min():.3f} to {ratios.max():.3f}."
        )
        return Finding.at_most(within, exactly(np.abs(ratios - 1).max()), note)

    return measure


def _ratios(evidence: Evidence, curve: Any) -> list[float]:
    loss, clock = curve.theory("theory_loss", "asymptote"), curve.theory("theory_ignition", "asymptote")
    if loss is None or clock is None:
        raise Unresolved("no asymptotic prediction is stored")
    rows = evidence.matched(cell=str(curve.cell["cell"]), source="network", tier="asymptote").sort_values("mode")
    before = np.searchsorted(curve.steps, np.sort(clock)) - 1
    heights = dict(zip(np.argsort(clock) + 1, loss[np.maximum(before, 0)], strict=True))
    return [row["plateau_loss"] / heights[int(row["mode"])] for _, row in rows.iterrows() if np.isfinite(row["plateau_loss"])]


def transition(task: str, epsilon: float) -> Measure:
    """Time from a tenth to nine tenths of a mode's strength, times its rate (logistic: 2 ln 9)."""

    def measure(evidence: Evidence) -> Finding:
        widths = []
        for curve in evidence.curves("network_mode", "theory_ignition", task=task, epsilon=epsilon, seed=0, weight_decay=0.0):
            strength, clock = curve.of("network_mode"), curve.theory("theory_ignition", "asymptote")
            if strength is None or clock is None:
                raise Unresolved("mode strengths or the asymptotic prediction are not stored")
            rise = crossing(curve.steps, strength, 0.9) - crossing(curve.steps, strength, 0.1)
            widths += list(rise * -np.log(epsilon) / clock)
        note = f"Flow time from strength 0.1 to 0.9 times the rate, {len(widths)} modes at epsilon = {epsilon:g}: median and range."
        return Finding.equals(2 * np.log(9), span_of(widths), 0.05, note)

    return measure


def decayed(task: str) -> Measure:
    """Final strengths under weight decay lambda, against max(0, 1 - 2 lambda / r)."""

    def measure(evidence: Evidence) -> Finding:
        gaps, never = [], 0
        for curve in evidence.curves("network_mode", "mode_target", task=task, experiment="weight_decay"):
            strength = curve.of("network_mode")
            if strength is None:
                raise Unresolved("mode strengths are not stored")
            rates, decay = curve.data["mode_target"].to_numpy(), float(curve.cell["weight_decay"])
            expected = np.maximum(1 - 2 * decay / rates, 0.0)
            gaps += list(np.abs(strength[-1] - expected))
            never += int((expected == 0).sum())
        note = (
            f"Largest distance of {len(gaps)} final strengths from max(0, 1 - 2 lambda / r_k), of which {never} are 0; r_k is the target."
        )
        return Finding.at_most(0.01, exactly(max(gaps)), note)

    return measure


def worst(tier: str, within: float, **conditions: Any) -> Measure:
    """Largest timing error of a tier, infinite where a mode is missed."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.ignitions(source="network", tier=tier, **conditions)
        errors = sizes(rows)
        note = f"Largest of {len(rows)} ignitions; median {errors.median():.2%}."
        return Finding.at_most(within, exactly(errors.max()), note)

    return measure
