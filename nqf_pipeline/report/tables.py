"""The tables of the page, as headers and rows of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.calibration.stored import results
from nqf_pipeline.analysis.sources import leading
from nqf_pipeline.report.chosen import EXACT, finest_predictions, group_names
from nqf_pipeline.report.data import Findings, ordered, sort
from nqf_pipeline.report.kinds import ALONE, lone, states
from nqf_pipeline.report.names import readable
from nqf_pipeline.report.wording import number, percent
from nqf_pipeline.store.schema import TIERS

SWEPT = ("alpha1", "alpha2", "gamma1", "gamma2", "theta", "beta")
LONG = 24
"""Rows from which on a table is folded away."""


_IGNITION = frozenset({"architecture", "task", "optimizer", "sigma", "cell", "width", "source", "mode", "tier", "relative_error", "status"})
MOST = 400
"""Rows of a table on the page: larger studies are read with `nqf query`."""


@dataclass(frozen=True)
class Table:
    """One table with the sentence that introduces it; numeric columns are set right."""

    title: str
    note: str
    headers: Sequence[str]
    rows: list[Sequence[str]]
    text: frozenset[int] = field(default_factory=frozenset)

    @property
    def long(self) -> bool:
        return len(self.rows) > LONG


def tables(study: Findings) -> list[Table]:
    """Every table that has rows."""
    found = [plateaus(study), drops(study), exponents(study), cells(study), troubles(study), timings(study), calibration(study)]
    return [table for table in found if table.rows]


def _rest(count: int, table: str) -> str:
    """Where the rows are that the page leaves out."""
    return f" The first {MOST:,} of {count:,} rows; all of them: nqf query RESULTS {table}." if count > MOST else ""


def exponents(study: Findings) -> Table:
    """One row per fit: measured with interval beside both predictions."""
    table = study.exponents
    if len(table):  # the theory's own fit is `predicted`; an exactly quadratic network is its own twin
        table = table[(table["source"] != "theory") & ~((table["source"] == "twin") & table["architecture"].isin(EXACT) & ~lone(table))]
        table = table.assign(_alone=lone(table))
    swept = [name for name in SWEPT if name in table and table[name].notna().any()]
    headers = ["task", "source", *swept, "ε", "exponent", "interval", "decades", "predicted, same window", "error", "limit", "status"]
    rows: list[Sequence[str]] = []
    for _, row in table.sort_values(["task", *swept, "epsilon", "source"], kind="stable").iloc[:MOST].iterrows():
        error = row["exponent"] / row["predicted_finite"] - 1
        place = [
            readable(row["task"]),
            row["source"] if not row["_alone"] else ALONE,
            *(_plain(row[name]) for name in swept),
            number(row["epsilon"]),
        ]
        measured = [_fixed(row["exponent"]), _interval(row["ci_low"], row["ci_high"]), _fixed(row["decades"], 2)]
        rows.append([*place, *measured, _fixed(row["predicted_finite"]), percent(error), _fixed(row["predicted_limit"]), _status(row)])
    note = (
        "Exponent k of loss = A time^-k + floor in the window. Predicted: the same fit, in the same window, to the theory's curve. "
        "Limit: ε → 0 and infinitely many modes."
    ) + _rest(len(table), "exponents")
    return Table("Exponents", note, headers, rows, frozenset({0, 1, len(headers) - 1}))


def _status(row: pd.Series) -> str:
    reason = str(row.get("reason", "") or "")
    return f"{row['status'].replace('_', ' ')}: {reason}" if reason and row["status"] != "ok" else row["status"].replace("_", " ")


def plateaus(study: Findings) -> Table:
    """Ignition errors of networks, and of twins trained alone, by architecture, optimizer and sigma."""
    table = study.plateaus
    headers = ["architecture", "task", "optimizer", "σ", "modes matched", "twin: median", "worst", "untrained: median", "worst", "tier"]
    note = (
        "Relative error of the step at which a mode of the network (or of a twin trained alone) reaches half its target: against its own "
        "trained twin, and against the finest tier that predicts without training. Modes matched: both seen and predicted, of all that "
        "were seen or due within the run."
    )
    rows: list[Sequence[str]] = []
    settings = 0
    if len(table):
        table = sort(leading(table)[[name for name in table if name in _IGNITION]])
        widths = table.groupby(["architecture", "task"])["width"].transform("nunique")
        shown = table["width"].where(widths > 1).rename("shown")
        groups = table.groupby(["architecture", shown, "source", "task", "optimizer", "sigma"], sort=False, dropna=False)
        settings = groups.ngroups
        rows = [_plateau_row((_label(*key[:3]), *key[3:]), group) for key, group in islice(groups, MOST)]
    return Table("Ignition", note + _rest(settings, "plateaus"), headers, rows, frozenset({0, 1, 2, 9}))


def _label(architecture: str, width: float, source: str) -> str:
    """The architecture, with its width where that is swept, and whether it is a twin alone."""
    return readable(architecture) + (f", width {width:g}" if np.isfinite(width) else "") + (" (twin alone)" if source == "twin" else "")


def _plateau_row(key: Any, group: pd.DataFrame) -> list[str]:
    seen = group[group["status"] == "matched"]
    finest = finest_predictions(group)
    matched = finest[finest["status"] == "matched"]
    twin = seen.loc[seen["tier"] == "twin", "relative_error"]
    tiers = ", ".join(ordered(matched["tier"])) if len(matched) else ""
    count = f"{len(matched)} of {int((finest['status'] != 'censored').sum())}" if len(finest) else "no prediction"
    return [*(readable(str(name)) for name in key[:3]), number(key[3]), count, *_errors(twin), *_errors(matched["relative_error"]), tiers]


def _errors(errors: pd.Series) -> list[str]:
    sizes = errors.abs()
    return [percent(float(sizes.median())), percent(float(sizes.max()))] if len(sizes) else ["", ""]


def drops(study: Findings) -> Table:
    """Drops of the networks' losses and the ignitions they belong to, by architecture, task and tier."""
    headers = ["architecture", "task", "tier", "drops seen", "matched", "of one mode", "error: median", "worst", "unexplained", "absent"]
    note = (
        "Sudden drops of the loss, found on the curve alone, beside predicted ignitions. Matched: to the mode (or modes that no curve can "
        "tell apart) predicted within a factor of 1.5 of it. Unexplained: drops without a watched mode. Absent: modes due, and no drop. "
        "A fall over more than a decade of time is a slope, and no drop."
    )
    table = study.drops
    rows: list[Sequence[str]] = []
    if len(table):
        table = sort(leading(table[table["status"] != "censored"]))
        for (architecture, task), part in table.groupby(["architecture", "task"], sort=False):
            place = readable(str(architecture)), readable(str(task))
            tiers = [tier for tier in (*TIERS, "twin") if tier in set(part["tier"])]
            rows += [[*place, tier, *_drop_counts(part[part["tier"] == tier])] for tier in tiers]
    return Table("Drops", note, headers, rows, frozenset({0, 1, 2}))


def _drop_counts(part: pd.DataFrame) -> list[str]:
    matched = part[part["status"] == "matched"]
    own = ~matched["mode_numbers"].str.contains("-")
    counts = [part["t_measured"].notna().sum(), len(matched), own.sum()]
    alone = [(part["status"] == status).sum() for status in ("unmatched_plateau", "unmatched_mode")]
    return [*(str(int(count)) for count in counts), *_errors(matched["relative_error"]), *(str(int(count)) for count in alone)]


def cells(study: Findings) -> Table:
    """Counts of cells by what became of them."""
    frame = study.cells.assign(group=group_names(study.cells))
    frame["state"] = states(frame)
    shown = ordered(frame["state"])
    by = ["group", "optimizer", "regime", "standing"]
    rows: list[Sequence[str]] = []
    for key, group in frame.groupby(by, sort=True):
        counts = group["state"].value_counts()
        rows.append([*(readable(str(name)) for name in key), *(str(int(counts.get(state, 0))) for state in shown)])
    headers = ["cells", "optimizer", "regime", "standing", *(state.replace("_", " ") for state in shown)]
    note = "Regime: which solution data and structure admit, from measured checks; standing: what the prediction then is."
    return Table("Cells", note, headers, rows, frozenset({0, 1, 2, 3}))


def calibration(study: Findings) -> Table:
    """What the same measurements say of curves of known truth, for each kind of noise."""
    headers = ["noise", "95 % intervals cover", "bias of exponents", "false plateaus", "missed drops", "error of drop times"]
    note = (
        "Synthetic curves through the code that measured this study (docs/calibration.md): power laws of 200 records over four decades, "
        "with 3 % noise (coverage and false plateaus, least and largest of three ways of recording), and staircases of three modes."
    )
    rows: list[Sequence[str]] = []
    known = results() if len(study.exponents) or len(study.plateaus) else results().iloc[:0]
    for noise, group in known.groupby("noise", sort=False):
        laws = group[group["curve"].isin(["power law", "power law and floor"]) & (group["interval"] == "local")]
        stairs = group[group["curve"] == "staircase"]
        spans = [_span(laws[name]) for name in ("coverage", "bias", "false_plateaus")]
        rows.append([str(noise), *spans, _span(stairs["missed_drops"]), _span(stairs["time_error"])])
    return Table("Calibration", note, headers, rows, frozenset({0}))


def _span(values: pd.Series) -> str:
    low, high = percent(float(values.min())), percent(float(values.max()))
    return low if low == high else f"{low} to {high}"


def troubles(study: Findings) -> Table:
    """Cells that are not done, with the step and the way out."""
    frame = study.cells[study.cells["status"] != "done"]
    rows: list[Sequence[str]] = []
    for _, row in frame.iloc[:MOST].iterrows():
        place = [row["cell"], f"{readable(row['architecture'])}, {readable(row['task'])}", readable(row["optimizer"]), number(row["sigma"])]
        step = str(row["diverged_step"]) if row["diverged_step"] >= 0 else ""
        rows.append([*place, str(row["seed"]), row["status"].replace("_", " "), step, row["remedy"]])
    headers = ["cell", "what", "optimizer", "σ", "seed", "status", "step", "way out"]
    return Table("Cells that are not done", _rest(len(frame), "cells").strip(), headers, rows, frozenset({0, 1, 2, 5, 7}))


def timings(study: Findings) -> Table:
    """Seconds by group of cells and stage."""
    frame = study.timings
    if frame.empty:
        return Table("Time", "", [], [])
    names = study.cells.assign(group=group_names(study.cells)).drop_duplicates("bucket").set_index("bucket")["group"]
    frame = frame.assign(group=frame["bucket"].map(names).fillna("whole study"))
    table = frame.pivot_table(index="group", columns="stage", values="seconds", aggfunc="sum", fill_value=0.0)
    table = table.loc[table.sum(axis=1).sort_values(ascending=False).index]
    shards = frame.groupby("group")["shard"].nunique()
    rows: list[Sequence[str]] = [
        [str(name), str(shards[name]), *(_fixed(value, 2) for value in row), _fixed(row.sum(), 2)] for name, row in table.iterrows()
    ]
    rows.append(["all", str(frame["shard"].nunique()), *(_fixed(value, 2) for value in table.sum()), _fixed(table.to_numpy().sum(), 2)])
    note = "Seconds of work, summed over jobs that may have run at the same time."
    return Table("Time", note, ["cells", "jobs", *map(str, table.columns), "all"], rows, frozenset({0}))


def _fixed(value: float, digits: int = 3) -> str:
    return f"{value:,.{digits}f}" if np.isfinite(value) else ""


def _plain(value: float) -> str:
    return f"{value:g}" if np.isfinite(value) else ""


def _interval(low: float, high: float) -> str:
    return f"{low:.3f} to {high:.3f}" if np.isfinite(low) and np.isfinite(high) else ""
