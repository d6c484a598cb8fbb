"""What ran: cells by status, and where the time went."""

from __future__ import annotations

from math import ceil

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from nqf_pipeline.report.canvas import Drawing, Omitted, panels
from nqf_pipeline.report.chosen import group_names
from nqf_pipeline.report.data import Findings, ordered
from nqf_pipeline.report.kinds import KINDS, counted, states
from nqf_pipeline.report.names import INK, MUTED
from nqf_pipeline.report.wording import listed, number, percent
from nqf_pipeline.store.schema import Status
from nqf_pipeline.study.config import ReportSettings

GROUPS = 16
"""Rows shown; the smallest beyond are summed."""
BESIDE = 0.2
"""Share of the longest bar up to which a bar ends, number included, beside the legend."""
_KIND_COLOURS = ("#2f7d55", "#7fc29b", "#c9d6e2")
"""Networks beside their twins, twins alone, only predicted."""
_STATUS_COLOURS = {
    Status.diverged: "#d55e00",
    Status.timed_out: "#de8f05",
    Status.killed: "#8c5aa6",
    Status.not_predicted: "#7f7f7f",
    Status.missing: "#b0b5bc",
}


def run(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Left: done cells by what was trained of them, others by status. Right: seconds by stage, for the same groups of cells."""
    if study.cells.empty:
        return Omitted("the study has no cells")
    cells = study.cells.assign(group=group_names(study.cells))
    seconds = _seconds(study, cells)
    groups = _by_size(cells, seconds)
    title = _title(cells, seconds)
    states_of = cells.assign(state=states(cells)).groupby(["group", "state"]).size().unstack(fill_value=0).reindex(groups, fill_value=0)
    stages = pd.DataFrame(index=groups)
    if not seconds.empty:
        stages = seconds.groupby(["group", "stage"])["seconds"].sum().unstack(fill_value=0.0).reindex(groups, fill_value=0.0)
        stages = stages[stages.sum().sort_values(ascending=False).index]
    rows = len(groups) + max(_room(states_of), _room(stages))
    figure, axes = panels(1, 2, 0.26 * rows + 1.0, title, sharey=True)
    _stacked(axes[0, 0], states_of, _status_colours())
    axes[0, 0].set_xlabel("cells")
    axes[0, 0].xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes[0, 0].set_ylim(rows - 0.5, -0.5)
    if seconds.empty:
        axes[0, 1].remove()
    else:
        _stacked(axes[0, 1], stages, dict(zip(stages.columns, sns.color_palette("crest_r", stages.shape[1]).as_hex(), strict=True)))
        axes[0, 1].set_xlabel("seconds, summed over jobs")
    return Drawing(figure, title, _caption(cells, seconds))


def _seconds(study: Findings, cells: pd.DataFrame) -> pd.DataFrame:
    """Timings with the group of their bucket; work that belongs to no bucket is 'whole study'."""
    if study.timings.empty:
        return study.timings
    names = cells.drop_duplicates("bucket").set_index("bucket")["group"]
    return study.timings.assign(group=study.timings["bucket"].map(names).fillna("whole study"))


def _by_size(cells: pd.DataFrame, seconds: pd.DataFrame) -> list[str]:
    counts = cells.groupby("group").size()
    time = seconds.groupby("group")["seconds"].sum() if len(seconds) else counts * 0.0
    names = sorted({*counts.index, *time.index}, key=lambda name: (-time.get(name, 0.0), -counts.get(name, 0), name))
    return names[:GROUPS]


def _status_colours() -> dict[str, str]:
    kinds = {names[1]: colour for names, colour in zip(KINDS.values(), _KIND_COLOURS, strict=True)}
    return kinds | {status.name: colour for status, colour in _STATUS_COLOURS.items()}


def _room(table: pd.DataFrame) -> int:
    """Empty rows below the bars, where the legend in the lower right corner would else hide one."""
    hidden = ceil(0.7 * table.shape[1] + 0.4)
    totals = table.sum(axis=1)
    return hidden if (totals.tail(hidden) > BESIDE * totals.max()).any() else 0


def _stacked(axis: Axes, table: pd.DataFrame, colours: dict[str, str]) -> None:
    left = pd.Series(0.0, index=table.index)
    for name in [name for name in colours if name in table] + [name for name in table if name not in colours]:
        axis.barh(table.index, table[name], left=left, color=colours.get(name, MUTED), label=str(name).replace("_", " "), height=0.7)
        left += table[name]
    for row, total in enumerate(left):
        axis.text(total, row, f" {number(float(total)) if total else '0'}", va="center", fontsize=8, color=INK)
    axis.margins(x=0.14)
    axis.tick_params(axis="y", length=0)
    axis.legend(loc="lower right", fontsize=8)


def _title(cells: pd.DataFrame, seconds: pd.DataFrame) -> str:
    done = int((cells["status"] == "done").sum())
    time = f", {number(round(float(seconds['seconds'].sum())))} s of work" if len(seconds) else ""
    kinds = f": {counted(cells[cells['status'] == 'done'])}" if done else ""
    return f"{done:,} of {len(cells):,} cells done{kinds}{time}"


def _caption(cells: pd.DataFrame, seconds: pd.DataFrame) -> str:
    counts = cells["status"].value_counts()
    twins = _compressed(cells) + _carried(cells)
    states = listed([f"{counts[name]:,} {name.replace('_', ' ')}" for name in ordered(pd.Series(counts.index))])
    if seconds.empty:
        return f"{states} cells{twins}; no timings were recorded."
    stages = seconds.groupby("stage")["seconds"].sum().sort_values(ascending=False)
    share = percent(float(stages.iloc[0] / stages.sum()))
    slowest = seconds.groupby("group")["seconds"].sum().idxmax()
    return f"{states} cells{twins}. {share} of the time went into the stage '{stages.index[0]}'; most of all into {slowest}."


def _compressed(cells: pd.DataFrame) -> str:
    """', 12 of them with compressed twins (13 columns instead of 1024)'; empty where there are none."""
    if not {"twin_width", "degrees"} <= set(cells):
        return ""
    small = cells[cells["twin_width"] < cells["degrees"]]
    if small.empty:
        return ""
    widths, full = (listed([f"{int(v)}" for v in sorted(small[name].unique())]) for name in ("twin_width", "degrees"))
    return f", {len(small):,} of them with compressed twins ({widths} columns instead of {full})"


def _carried(cells: pd.DataFrame) -> str:
    """', 12 of them networks whose gradient was computed at 7 % of the steps (median) and carried on between ...'; empty where none."""
    if "gradient_share" not in cells or not (lagging := cells[cells["gradient_share"].notna()]).shape[0]:
        return ""
    share, gap = percent(float(lagging["gradient_share"].median())), percent(float(lagging["gradient_gap"].max()))
    return f", {len(lagging):,} of them networks whose gradient was computed at {share} of the steps (median), off by at most {gap} between"
