"""One look for every figure: a colour is an architecture, a line style is a source, everywhere.

Solid is the network, dashed its twin, dotted the theory. Ink, muted and paper are reserved colours: the page replaces
them by its own, so that figures follow the reader's light or dark setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.colors import to_hex, to_rgb

from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.report.names import GRID, INK, MUTED, PAPER

WIDTH = 8.0
"""Inches of a figure: 768 CSS pixels, the column of the page, so that a 9-point label is read at 9 points."""

LINES: dict[str, dict[str, Any]] = {
    "network": {"linestyle": "-", "linewidth": 2.8},
    "twin": {"linestyle": (0, (4, 3)), "linewidth": 1.0},
    "theory": {"linestyle": (0, (0.05, 2.2)), "linewidth": 2.4, "dash_capstyle": "round"},
}
MARKERS = {"network": "o", "twin": "s", "theory": "D"}
SOURCES = {"network": "network", "twin": "twin (quadratic form, trained)", "theory": "theory"}

# Positions in seaborn's ten-colour palettes, most distinct first: the light pink of `colorblind` would vanish on paper.
_ORDER = (0, 1, 2, 4, 9, 7, 5, 3)
_SHADES = (0.55, 0.75, 1.0)


@cache
def architecture_colours(palette: str = "colorblind") -> dict[str, str]:
    """One colour per architecture, the same in every figure of every study."""
    colours = sns.color_palette(palette, 10)
    chosen = [colours[i] for i in _ORDER]
    # A palette ends long before the architectures do: each further one gets the hue and shade farthest from all before it.
    pool = [tuple(shade * np.array(hue)) for hue in sns.color_palette("husl", 24) for shade in _SHADES]
    while len(chosen) < len(ARCHITECTURES):
        chosen.append(max(pool, key=lambda c: min(np.abs(np.subtract(c, other)).sum() for other in chosen)))
    return {kind: to_hex(colour) for kind, colour in zip(ARCHITECTURES, chosen, strict=False)}


def colour_of(architecture: str, palette: str = "colorblind") -> str:
    """Muted for an architecture that the registry does not know (a results folder with a user's own)."""
    return architecture_colours(palette).get(architecture, MUTED)


def shades(colour: str, count: int) -> list[str]:
    """From dark to light in one hue: the modes of one architecture, strongest first."""
    base = np.array(to_rgb(colour))
    dark, light = 0.6 * base, base + 0.45 * (1.0 - base)
    return [to_hex((float(r), float(g), float(b))) for r, g, b in np.linspace(dark, light, count)]


def _parameters() -> dict[str, Any]:
    return {
        "font.size": 9.0,
        "axes.titlesize": 9.5,
        "axes.labelsize": 9.0,
        "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5,
        "legend.fontsize": 8.5,
        "figure.titlesize": 11.0,
        "figure.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "axes.facecolor": "none",
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "figure.facecolor": PAPER,
        "savefig.facecolor": PAPER,
        "svg.hashsalt": "nqf_pipeline",
        "svg.fonttype": "path",
        "path.simplify": True,
    }


@contextmanager
def theme(style: str = "ticks") -> Iterator[None]:
    """Everything drawn and saved inside looks alike and is byte-identical when redrawn."""
    with mpl.rc_context():
        sns.set_theme(context="paper", style=style, font="DejaVu Sans", rc=_parameters())
        yield
