"""Where the quadratic form holds: the twin's timing error over sigma, width and samples, and lazy against feature learning."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import Estimate, median_of, share_of, span_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.kernel import FEATURES, LAZY, width_exponent
from nqf_pipeline.analysis.validity import AXES, timing_errors, trend
from nqf_pipeline.analysis.windows import Unresolved

SMALLEST, MIDDLE = 1e-6, 1e-3
WIDTH = 64
STUDY = "validity"


def _errors(evidence: Evidence, **conditions: float) -> pd.DataFrame:
    rows = timing_errors(evidence.matched(source="network", tier="twin", **conditions))
    absent = [axis for axis in AXES if axis not in rows]
    if absent or rows.empty:
        raise Unresolved(f"no timed ignition{' with ' + ', '.join(absent) if absent else ''}")
    return rows


def _slope(rows: pd.DataFrame, axis: str) -> Estimate:
    found = trend(rows, axis)
    if not np.isfinite(found.slope):
        raise Unresolved(f"no trend of the timing error along {axis}: {found.cells} cells")
    return Estimate(found.slope, found.low, found.high)


def width(evidence: Evidence) -> Finding:
    """Slope in width at a middle sigma and sample size."""
    rows = _errors(evidence, sigma=MIDDLE)
    note = f"Slope of ln(timing error) against ln(width) over {rows['cell'].nunique()} cells, widths {_values(rows, 'width')}."
    return Finding.equals(-1.0, _slope(rows, "width"), 0.5, note, absolute=True)


def large_sigma(evidence: Evidence) -> Finding:
    """Slope in sigma from the middle upwards."""
    rows = _errors(evidence, width=WIDTH)
    rows = rows[rows["sigma"] >= 0.99 * MIDDLE]
    note = f"Slope of ln(timing error) against ln(sigma), sigma {_values(rows, 'sigma')}, {rows['cell'].nunique()} cells."
    return Finding.at_least(0.0, _slope(rows, "sigma"), note)


def small_sigma(evidence: Evidence) -> Finding:
    """Largest error of a cell's modes at the smallest sigma over that at the middle one, at equal width, samples and seed."""
    keys = ["width", "samples", "seed"]
    worst = [_errors(evidence, sigma=sigma).groupby(keys)["error"].max() for sigma in (SMALLEST, MIDDLE)]
    ratios = (worst[0] / worst[1]).dropna()
    note = (
        f"Ratio of the worst mode's error, median over {len(ratios)} pairs of cells; largest {ratios.max():.2g}, least {ratios.min():.2g}."
    )
    return Finding.at_most(1.0, median_of(ratios), note)


def late_modes(evidence: Evidence) -> Finding:
    """Share of the last two modes that ignite before their twins at the smallest sigma."""
    rows = _errors(evidence, sigma=SMALLEST, width=WIDTH)
    late = rows[rows["mode"] >= 3]
    note = f"Modes 3 and 4 of {late['cell'].nunique()} cells; they come {-late['relative_error'].median():.0%} earlier in the median."
    return Finding.at_least(0.5, share_of(late["relative_error"] < 0), note)


def samples(evidence: Evidence) -> Finding:
    """Slope in samples at the smallest sigma, of the late modes."""
    rows = _errors(evidence, sigma=SMALLEST)
    rows = rows[rows["mode"] >= 3]
    note = f"Slope of ln(timing error) of modes 3 and 4 against ln(samples), samples {_values(rows, 'samples')}."
    return Finding.at_most(0.0, _slope(rows, "samples"), note)


def feature_learning(evidence: Evidence) -> Finding:
    """Relative change of the twin's kernel at small sigma."""
    cells = evidence.cells(status="done")
    change = cells.loc[cells["sigma"] <= 1.01 * MIDDLE, "kernel_change"].dropna()
    note = f"Share of {len(change)} cells with sigma <= {MIDDLE:g} whose kernel changes by more than its size; least {change.min():.2g}."
    return Finding.at_least(0.9, share_of(change > FEATURES), note)


def lazy_width(evidence: Evidence) -> Finding:
    """Exponent of the kernel's change in the width at fixed small sigma: M_0 grows with the width, what is learnt does not."""
    cells = evidence.cells(status="done")
    found = width_exponent(cells[cells["sigma"] <= 1.01 * MIDDLE])
    if found is None:
        raise Unresolved("no sigma has kernels at two widths")
    wide = cells.loc[(cells["sigma"] == cells["sigma"].max()) & (cells["width"] == cells["width"].max()), "kernel_change"].median()
    note = f"Slope over {len(cells)} cells; at the largest sigma and width the change is {wide:.2g} (below {LAZY:g} counts as lazy)."
    return Finding.equals(-1.0, Estimate(found.value, found.low, found.high), 0.1, note, absolute=True)


def second_drop(evidence: Evidence) -> Finding:
    """Least loss of attention on digits over the least that its twin reaches."""
    curves = evidence.curves("network_loss", "twin_loss", experiment="digits", architecture="multi_head")
    ratios = [float(np.min(curve.data["network_loss"]) / np.min(curve.data["twin_loss"])) for curve in curves]
    note = f"{len(ratios)} seeds. Which orders and weights drive the drop: docs/models.md."
    return Finding.at_most(0.9, span_of(ratios), note)


def _values(rows: pd.DataFrame, axis: str) -> str:
    return ", ".join(f"{value:g}" for value in sorted(rows[axis].unique()))


CLAIMS = (
    Claim(
        "validity.width",
        "The twin's timing error falls as 1 / width (power within 0.5; MLP 20-width-8, sigma = 0.001).",
        "Theorem 1, Limitations",
        STUDY,
        width,
    ),
    Claim(
        "validity.large_sigma",
        "From sigma = 0.001 upwards a smaller sigma makes the twin's timing better: the error grows as a positive power of sigma.",
        "Theorem 1, Figure 2",
        STUDY,
        large_sigma,
    ),
    Claim(
        "validity.small_sigma",
        "The smaller sigma, the better the twin's timing: the worst mode's error at sigma = 1e-6 is at most that at 0.001.",
        "Theorem 1, read as a limit",
        STUDY,
        small_sigma,
    ),
    Claim(
        "validity.late_modes",
        "At sigma = 1e-6 late modes of a network ignite before their twins: earlier modes' higher orders seed them (width 64).",
        "Limitations (not in the paper)",
        STUDY,
        late_modes,
    ),
    Claim(
        "validity.samples",
        "More samples improve the timing of late modes at sigma = 1e-6, since finite-sample moments carry the seeds.",
        "Limitations (not in the paper)",
        STUDY,
        samples,
    ),
    Claim(
        "kernel.feature_learning",
        "Small starts learn features: the tangent kernel of the quadratic form changes by more than its size (sigma up to 0.001).",
        "Proposition 8",
        STUDY,
        feature_learning,
    ),
    Claim(
        "kernel.width",
        "At fixed sigma a wider module is lazier: its kernel changes as 1 / width (power within 0.1; sigma up to 0.001).",
        "Propositions 8 and 9",
        STUDY,
        lazy_width,
    ),
    Claim(
        "beyond.attention_second_drop",
        "Plateaus of higher than quadratic order exist: on digits multi-head attention ends at least 10% below any loss that its quadratic "
        "form reaches, since queries and keys enter at order four.",
        "Theorem 13, Limitations",
        "default",
        second_drop,
    ),
)
