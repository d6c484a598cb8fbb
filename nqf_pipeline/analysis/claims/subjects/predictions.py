"""Section 4: ignition times known before training, and whether learning is sudden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import median_of, share_of, span_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.suddenness import shown
from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.store.schema import TIERS

STUDY = "predictions"
CLOSED, EVENTS, NETWORKS = 0.005, 0.03, 0.05
"""Bounds of the median relative error: closed clocks and event clocks against twins, twins against networks."""
WHITE = ("mlp", "multi_head")
EXACT = frozenset(kind for kind, cls in ARCHITECTURES.items() if cls.exactly_quadratic)


def spelt(rows: pd.DataFrame) -> str:
    """Count and size of the errors."""
    errors = rows["relative_error"].abs()
    return f"{len(rows)} modes: median {errors.median():.3%}, 90th percentile {errors.quantile(0.9):.3%}, worst {errors.max():.3%}"


def by_optimizer(rows: pd.DataFrame) -> str:
    """Medians and worsts by optimizer and sigma, for the note."""
    kind = rows["optimizer"].where(rows.get("weight_decay", 0.0) == 0, "weight decay")
    groups = rows["relative_error"].abs().groupby([kind, rows["sigma"]])
    return "; ".join(f"{name}, sigma {sigma:g}: {part.median():.2%} / {part.max():.2%}" for (name, sigma), part in groups)


def against(source: str, tier: str, bound: float, architectures: tuple[str, ...]) -> Callable[[Evidence], Finding]:
    """Median error of a tier's ignition times for one kind of curve."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.matched(experiment="clocks", source=source, tier=tier)
        rows = rows[rows["architecture"].isin(architectures)]
        if rows.empty:
            raise Unresolved(f"no ignition of {', '.join(architectures)} is both measured and predicted by tier {tier}")
        note = f"{spelt(rows)} (median / worst by optimizer: {by_optimizer(rows)})."
        return Finding.at_most(bound, median_of(rows["relative_error"].abs()), note)

    return measure


def all_ignite(source: str) -> Callable[[Evidence], Finding]:
    """Share of modes that ignite among those the finest tier says will within the run."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.ignitions(experiment="clocks", source=source)
        rows = rows.assign(rank=rows["tier"].map({tier: i for i, tier in enumerate(TIERS)})).dropna(subset="rank")
        rows = rows.sort_values("rank", kind="stable").drop_duplicates(["cell", "mode"], keep="last")
        due = rows[rows["status"] != "unmatched_plateau"]
        missing, unforeseen = (due["status"] == "unmatched_mode").sum(), (rows["status"] == "unmatched_plateau").sum()
        note = f"{len(due)} modes due within the run, {missing} of them did not ignite; {unforeseen} ignited that were not due."
        return Finding.at_least(0.99, float((due["status"] == "matched").mean()), note)

    return measure


def coverage(source: str) -> Callable[[Evidence], Finding]:
    """Share of ignitions within the predicted 90 % band over draws of weights; modes that never ignite are outside."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.ignitions(experiment="spread", source=source, tier="discrete").dropna(subset=["t_low", "t_high"])
        inside = rows["t_measured"].between(rows["t_low"], rows["t_high"])
        by_mode = ", ".join(f"mode {mode}: {part.mean():.1%}" for mode, part in inside.groupby(rows["mode"]))
        bias = ((rows["t_measured"] - (rows["t_low"] + rows["t_high"]) / 2) / (rows["t_high"] - rows["t_low"])).median()
        note = f"{rows['cell'].nunique()} draws of weights and data ({by_mode}); median offset {bias:+.2f} band widths from its middle."
        return Finding.equals(0.9, share_of(inside), 0.03, note, absolute=True)

    return measure


def threshold(evidence: Evidence) -> Finding:
    """Final strength of the second mode on both sides of 2 weight_decay = r."""
    sizes = {}
    for decay in (0.5, 0.9, 1.1, 1.5):
        curves = evidence.curves("twin_mode", experiment="threshold", weight_decay=decay)
        sizes[decay] = [float(curve.data["twin_mode"].to_numpy()[-1, 1]) for curve in curves]
    right = [(size > 0.02) == (decay < 1) for decay, values in sizes.items() for size in values]
    spoken = ", ".join(f"weight_decay {decay:g}: {np.median(values):.3f}" for decay, values in sizes.items())
    return Finding.at_least(
        1.0, float(np.mean(right)), f"Final strength of the second mode, whose threshold is weight_decay = 1 ({spoken})."
    )


def verdicts(evidence: Evidence) -> Iterator[tuple[bool, bool, str]]:
    """(predicted, seen, architecture) of cells with a prediction and two steps or more; quadratic networks would say nothing new."""
    for curve in evidence.curves("network_mode", "theory_mode"):
        predicted, network = curve.untrained("theory_mode"), curve.of("network_mode")
        if predicted is None or network is None or curve.cell["architecture"] in EXACT:
            continue
        foreseen, seen = shown(curve.steps, np.nan_to_num(predicted)), shown(curve.steps, np.nan_to_num(network))
        if foreseen.steps > 1 and seen.steps > 1:
            yield foreseen.sudden, seen.sudden, str(curve.cell["architecture"])


def confusion(evidence: Evidence) -> Finding:
    """Share of cells whose verdict, sudden or gradual, was right before training."""
    found = list(verdicts(evidence))
    if not found:
        raise Unresolved("no cell has a prediction and two steps of learning")
    counts: dict[tuple[bool, bool], int] = {}
    for predicted, seen, _ in found:
        counts[predicted, seen] = counts.get((predicted, seen), 0) + 1
    cases: list[Any] = [
        f"{'sudden' if p else 'gradual'} predicted, {'sudden' if s else 'gradual'} seen: {counts.get((p, s), 0)}"
        for p in (True, False)
        for s in (True, False)
    ]
    return Finding.at_least(0.9, share_of(p == s for p, s, _ in found), f"{len(found)} cells ({'; '.join(cases)}), over the watched modes.")


def worst_twin(evidence: Evidence) -> Finding:
    """Event clocks, every single mode."""
    rows = evidence.matched(experiment="clocks", source="twin", tier="event", architecture="cnn")
    return Finding.at_most(0.1, span_of(rows["relative_error"].abs()), f"{spelt(rows)}.")


CLAIMS = (
    Claim(
        "predictions.closed",
        f"Where inputs are white, closed clocks tell when each mode of the quadratic form ignites, to {CLOSED:.1%} in the median.",
        "Section 4",
        STUDY,
        against("twin", "discrete", CLOSED, WHITE),
    ),
    Claim(
        "predictions.events",
        f"Where inputs are correlated (CNN), event clocks tell it to {EVENTS:.0%} in the median (not in the paper).",
        "Section 4",
        STUDY,
        against("twin", "event", EVENTS, ("cnn",)),
    ),
    Claim("predictions.events_worst", "The same for every single mode, to 10 % (not in the paper).", "Section 4", STUDY, worst_twin),
    Claim(
        "predictions.networks",
        f"Networks ignite with their quadratic forms, to {NETWORKS:.0%} in the median over five architectures, four optimizers and sigma "
        "from 1e-2 to 1e-4.",
        "Theorem 1, Figure 2",
        STUDY,
        against("network", "twin", NETWORKS, ("mlp", "cnn", "query_key", "multi_head", "mixture_of_experts")),
    ),
    Claim(
        "predictions.twins_ignite",
        "Modes predicted to ignite do, in the twin (99 of 100 at least).",
        "Section 4",
        STUDY,
        all_ignite("twin"),
    ),
    Claim(
        "predictions.networks_ignite",
        "Modes predicted to ignite do, in the network (99 of 100 at least).",
        "Section 4",
        STUDY,
        all_ignite("network"),
    ),
    Claim("predictions.band_twins", "The 90 % band of the clock covers 90 % of twins (within 3 %).", "Section 4", STUDY, coverage("twin")),
    Claim(
        "predictions.band_networks",
        "The 90 % band of the clock covers 90 % of networks (within 3 %).",
        "Section 4",
        STUDY,
        coverage("network"),
    ),
    Claim(
        "predictions.threshold",
        "The sign of r - 2 weight_decay decides whether a mode ever ignites.",
        "Section 4",
        STUDY,
        threshold,
    ),
    Claim(
        "predictions.sudden_or_gradual",
        "Whether learning is sudden or gradual is known before training (in nine of ten cells at least).",
        "Section 4",
        "default",
        confusion,
    ),
)
