"""Panels, titles and the one rule by which figures are saved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator

from nqf_pipeline.report.names import INK
from nqf_pipeline.report.style import LINES, SOURCES, WIDTH
from nqf_pipeline.report.wording import number, power
from nqf_pipeline.store.atomic import write_bytes

# Neither dates nor versions: a rerun gives the same bytes.
_METADATA: dict[str, dict[str, None]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


SHORT_RANGE = 60.0
"""Largest over smallest value of a log axis below which single powers of ten are too few to read it."""


LARGEST_SVG = 900_000
"""Bytes of an SVG beyond which its pixels are made coarser."""
LARGEST, MARKER, POINT = 400_000, 110, 22
"""Bytes of curves and points in a figure beyond which its panels become pixels; bytes of a marker, of a point of a line."""


@dataclass(frozen=True)
class Drawing:
    """A finished figure with the sentence that says its point."""

    figure: Figure
    title: str
    caption: str


@dataclass(frozen=True)
class Omitted:
    """Why a study has no such figure."""

    reason: str


def bound(figure: Figure) -> None:
    """Draw panels as pixels inside the SVG where their lines and points would make a large file, however many cells there are."""
    budget = LARGEST / max(len(figure.axes), 1)
    for axis in figure.axes:
        artists = [*axis.lines, *axis.collections]
        if sum(map(_bytes, artists)) > budget:
            for artist in artists:
                artist.set_rasterized(True)


def _bytes(artist: Artist) -> float:
    """About what an artist takes in an SVG: a marker or segment is an element, a point of a line two numbers."""
    if isinstance(artist, Line2D):
        return len(np.asarray(artist.get_xdata())) * (MARKER if artist.get_marker() not in ("None", None, "", " ") else POINT)
    if isinstance(artist, Collection):
        return max(np.shape(artist.get_offsets())[0] * MARKER, sum(len(np.asarray(path.vertices)) for path in artist.get_paths()) * POINT)
    return 0.0


def save(drawing: Drawing, folder: Path, name: str, formats: Sequence[str], dpi: int) -> list[Path]:
    """Write `name` in each format; the same data give the same bytes."""
    paths = []
    bound(drawing.figure)
    _lay_out(drawing.figure)
    for suffix in formats:
        path, stream = folder / f"{name}.{suffix}", BytesIO()
        drawing.figure.savefig(stream, format=suffix, dpi=dpi, metadata=_METADATA.get(suffix))
        if suffix == "svg" and stream.tell() > LARGEST_SVG:  # crowded pixels compress badly: fewer of them
            coarser = dpi * math.sqrt(0.7 * LARGEST_SVG / stream.tell())
            stream = BytesIO()
            drawing.figure.savefig(stream, format=suffix, dpi=coarser, metadata=_METADATA[suffix])
        write_bytes(path, stream.getvalue())
        paths.append(path)
    return paths


def _lay_out(figure: Figure) -> None:
    """Place everything once, for every format: left to itself, the library does it twice a format, at the cost of drawing it."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)  # not "none", which leaves a placeholder for which `savefig` draws everything once more


def panels(rows: int, columns: int, height: float, title: str, **options: Any) -> tuple[Figure, np.ndarray]:
    """A grid of axes, shape (rows, columns); `height` is inches per row."""
    figure = Figure(figsize=(WIDTH, rows * height + 0.75), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    figure.suptitle(title, x=0.0, ha="left", wrap=True)
    return figure, axes


def grid_of(count: int, columns: int) -> tuple[int, int]:
    """Rows and columns for `count` panels, at most `columns` wide; four are a square."""
    width = min(count, 2 if count == 4 else columns)
    return math.ceil(count / width), width


def drop_unused(axes: np.ndarray, used: int) -> list[Axes]:
    """Remove the axes beyond `used` and return the others in reading order."""
    flat = list(axes.flat)
    for axis in flat[used:]:
        axis.remove()
    return flat[:used]


def log_axes(axis: Axes, x: bool = True, y: bool = True) -> None:
    """Log axes with a readable number of ticks."""
    for wanted, scale, ticks in ((x, axis.set_xscale, axis.xaxis), (y, axis.set_yscale, axis.yaxis)):
        if wanted:
            scale("log")
            ticks.set_major_locator(LogLocator(numticks=6))
            ticks.set_minor_locator(LogLocator(subs=(2.0, 5.0), numticks=20))
            for setter in (ticks.set_major_formatter, ticks.set_minor_formatter):
                setter(FuncFormatter(lambda value, _, ticks=ticks: _log_label(value, *ticks.get_view_interval())))
            ticks.set_tick_params(which="minor", length=0, labelsize=8.5)
    axis.grid(True, which="major")


def _log_label(value: float, low: float, high: float) -> str:
    """Powers of ten; over less than two decades, 1, 2, 5 in plain numbers."""
    if high < SHORT_RANGE * low:
        return f"{value:g}" if 1e-3 <= value < 1e5 else number(value)
    return power(value) if abs(math.log10(value) % 1.0) < 1e-6 else ""


def loss_label(figure: Figure, rows: int, text: str) -> None:
    """The label of the y axis, in two lines where the figure is low."""
    figure.supylabel(text if rows > 1 else text.replace(", sum", ",\nsum"), fontsize=9, multialignment="center")


def source_legend(figure: Figure, sources: Sequence[str], extra: Sequence[Line2D] = (), names: dict[str, str] | None = None) -> None:
    """The line styles, once a figure, in ink: colour is never what tells sources apart."""
    labels = SOURCES | (names or {})
    handles = [Line2D([], [], color=INK, label=labels[source], **LINES[source]) for source in sources]
    figure.legend(handles=[*handles, *extra], loc="outside lower center", ncols=len(handles) + len(extra), handlelength=3.2)
