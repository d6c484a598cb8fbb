"""A study in one paragraph: numbers computed from its tables, nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.sources import leading
from nqf_pipeline.report.chosen import finest_predictions, matched_networks, networks
from nqf_pipeline.report.data import Findings, narrowed, ordered
from nqf_pipeline.report.fits import ensembles, predicted_only
from nqf_pipeline.report.kinds import counted, whose
from nqf_pipeline.report.names import TIER_NAMES, readable
from nqf_pipeline.report.wording import listed, number, percent, plural, spread
from nqf_pipeline.store.schema import TIERS


def verdict(study: Findings) -> list[str]:
    """Sentences that a reader may stop after."""
    found = [_cells(study.cells), *_twins(study), _clocks(study), *_exponents(study), _departure(study.cells)]
    return [sentence for sentence in found if sentence]


def _cells(cells: pd.DataFrame) -> str:
    counts = cells["status"].value_counts()
    done = int(counts.get("done", 0))
    kinds = counted(cells[cells["status"] == "done"])
    others = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if name != "done"]
    return f"{done:,} of {len(cells):,} cells are done{f' ({listed(others)})' if others else ''}{f': {kinds}' if done else ''}."


def _teacher(study: Findings) -> pd.DataFrame:
    """Matched ignitions of the networks that the figures show, at the smallest sigma."""
    table = matched_networks(study)
    table = table[table["cell"].isin(networks(study)["cell"])] if len(table) else table
    return table[table["sigma"] == table["sigma"].min()] if len(table) else table


def _twins(study: Findings) -> list[str]:
    """Networks against their twins, per architecture, under the plainest optimizer of the study."""
    table = _teacher(study)
    table = table[table["tier"] == "twin"] if len(table) else table
    if table.empty:
        return []
    optimizer = ordered(table["optimizer"])[0]
    table = table[table["optimizer"] == optimizer]
    errors = {kind: table.loc[table["architecture"] == kind, "relative_error"].abs() for kind in ordered(table["architecture"])}
    pieces = [f"{readable(kind)} {percent(error.median())} ({percent(error.max())})" for kind, error in errors.items()]
    held = narrowed(study.select(), networks(study))
    where = f" ({held})" if held else ""
    sentence = (
        f"At σ = {number(table['sigma'].iloc[0])} under {readable(optimizer)}{where}, the steps at which modes ignite in a "
        f"network and in its twin differ by {listed(pieces)}: median and, in brackets, worst of {len(table)} modes."
    )
    return [sentence]


def _clocks(study: Findings) -> str:
    table = _teacher(study)
    table = finest_predictions(table) if len(table) else table
    if table.empty:
        return ""
    tiers = listed([TIER_NAMES[tier] for tier in TIERS if tier in set(table["tier"])])
    ignitions = f"the ignition of {plural(len(table), 'mode')} by {spread(table['relative_error'])}"
    return f"Predictions made without training ({tiers}) miss {ignitions}."


def _exponents(study: Findings) -> list[str]:
    sentences = [
        f"Nothing is trained of {readable(task)}: {len(table)} exponents are predicted, from {number(table['exponent'].min())} to "
        f"{number(table['exponent'].max())}."
        for task, table in predicted_only(study).items()
    ]
    for task, table in ensembles(study).items():
        every = leading(study.exponents[study.exponents["task"].str.startswith(task)])
        error = (table["exponent"] / table["predicted_finite"] - 1).abs()
        distance = (table["exponent"] / table["predicted_limit"] - 1).abs()
        limit = f"; their limit for ε → 0 is {percent(distance.median())} away (median)" if distance.notna().any() else ""
        sentences.append(
            f"{len(table)} of {len(every)} exponents of {readable(task)}{whose(every)} are resolved; the finite-size prediction misses "
            f"them by {spread(error)}{limit}."
        )
    return sentences


def _departure(cells: pd.DataFrame) -> str:
    cells = cells[cells["task"].str.startswith("teacher") & np.isfinite(cells["largest_mode_gap"])]
    if cells.empty or cells["sigma"].nunique() < 2:
        return ""
    medians = cells.groupby("sigma")["largest_mode_gap"].median()
    pieces = [f"{number(round(medians.loc[sigma], 3))} at σ = {number(sigma)}" for sigma in (medians.index[0], medians.index[-1])]
    return f"The largest gap in mode strength between network and twin is {listed(pieces)} (medians)."
