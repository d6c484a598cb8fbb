"""The table `drops`: every drop of the losses beside the predicted ignitions, one row per cell, curve, tier and drop.

Cells with squared error (under which a mode's ignition is three quarters of a fall), at least one tier that predicts them, and watched
modes numbered without a gap: where modes in between are not watched, as in power laws of a thousand, nothing says which drop is whose.
A network is compared with its trained twin too (tier `twin`), as in the table `plateaus`. Modes that a tier never lets ignite make no row.
Drops of modes beyond the watched ones stay without partner.
Weight decay keeps strengths below 1: half the target, which is ignition, then is no longer three quarters of the fall.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool, Float, Int

from nqf_pipeline.analysis.drops.expected import Prediction, readings
from nqf_pipeline.analysis.drops.match import Match, match
from nqf_pipeline.analysis.drops.seen import Seen, lifted, look
from nqf_pipeline.analysis.sources import sources_of
from nqf_pipeline.analysis.suddenness import half_and_width
from nqf_pipeline.store.schema import TIERS
from nqf_pipeline.theory.ignition import crossing

_BY_TIER = ("theory_ignition", "theory_mode", "theory_loss")
NOTHING = Seen(*(float("nan"),) * 6)


def drop_rows(dataset: xr.Dataset, coordinates: pd.DataFrame) -> pd.DataFrame:
    """Rows for all cells of a (loaded) dataset; `coordinates` has one row per cell."""
    cells = np.flatnonzero(predicted_staircases(dataset))
    if not len(cells) or not sources_of(dataset):
        return pd.DataFrame()
    if len(cells) < len(coordinates):
        dataset, coordinates = dataset.isel(cell=cells), coordinates.iloc[cells].reset_index(drop=True)
    steps = dataset["step_number"].to_numpy()
    sources = sources_of(dataset)
    curves = {source: look(steps, dataset[f"{source}_loss"].to_numpy()) for source in sources}
    said = _Said.of(dataset)
    rows = []
    for cell in range(len(cells)):
        for tier, prediction in said.tiers(cell):
            ways = list(readings(prediction))
            for source in sources if tier != "twin" else sources[:-1]:
                matches = match(curves[source][cell], ways)
                rows += [{"place": cell, "source": source, "tier": tier, **_row(n, m)} for n, m in enumerate(matches, 1)]
    if not rows:
        return pd.DataFrame()
    found = pd.DataFrame(rows)
    repeated = coordinates.iloc[found["place"]].reset_index(drop=True)
    return pd.concat([repeated, found.drop(columns="place")], axis=1)


def predicted_staircases(dataset: xr.Dataset) -> Bool[np.ndarray, "cells"]:
    """Cells whose drops can be told: squared error, some tier, modes watched without a gap."""
    if "theory_ignition" not in dataset or "loss_floor" not in dataset.variables:
        return np.zeros(dataset.sizes["cell"], bool)
    squared = np.isfinite(dataset["loss_floor"].to_numpy())
    number = dataset["mode_number"].to_numpy()
    whole = (number == np.arange(1, number.shape[1] + 1)).all(1)
    return np.asarray(squared & whole & (~np.isnan(dataset["theory_ignition"].to_numpy())).any((0, 2)))


@dataclass(frozen=True)
class _Said:
    """What is predicted of some cells, by tier, the twin last; arrays have one row a cell."""

    number: Int[np.ndarray, "cells modes"]
    steps: Float[np.ndarray, "cells records"]
    time: dict[str, Float[np.ndarray, "cells modes"]]
    width: dict[str, Float[np.ndarray, "cells modes"]]
    """Of all tiers that of the finest one that predicts each mode's strength; a coarser one moves steps, and does not know their widths."""
    loss: dict[str, Float[np.ndarray, "cells records"]]

    @classmethod
    def of(cls, dataset: xr.Dataset) -> _Said:
        names = [str(tier) for tier in dataset["tier"].to_numpy()]
        number, steps = dataset["mode_number"].to_numpy(), dataset["step_number"].to_numpy()
        ignition, curves, losses = (dict(zip(names, dataset[name].transpose("tier", ...).to_numpy(), strict=True)) for name in _BY_TIER)
        widths = np.full(number.shape, np.nan)
        for tier in (tier for tier in reversed(TIERS) if tier in names):
            widths = np.where(np.isnan(widths), _width(steps, curves[tier]), widths)
        twin = np.nan_to_num(dataset["twin_mode"].to_numpy())
        return cls(
            number,
            steps.astype(float),
            ignition | {"twin": crossing(steps, twin)},
            dict.fromkeys(names, widths) | {"twin": half_and_width(steps, twin)[1]},
            {tier: lifted(loss) for tier, loss in (losses | {"twin": dataset["twin_loss"].to_numpy()}).items()},
        )

    def tiers(self, cell: int) -> Iterator[tuple[str, Prediction]]:
        """Each tier with a statement about a cell, then the twin."""
        for tier, times in self.time.items():
            if tier == "twin" or not np.isnan(times[cell]).all():
                yield tier, Prediction(self.number[cell], times[cell], self.width[tier][cell], self.steps[cell], self.loss[tier][cell])


def _width(steps: np.ndarray, strength: np.ndarray) -> Float[np.ndarray, "cells modes"]:
    """NaN for modes that the tier has no curve of, or that do not rise."""
    width = half_and_width(steps, np.nan_to_num(strength))[1]
    return np.where(np.isfinite(strength).all(-2) & (width > 0), width, np.nan)


def _row(number: int, found: Match) -> dict[str, Any]:
    seen = found.seen or NOTHING
    predicted = found.expected.time if found.expected else float("nan")
    return {
        "number": number,
        "mode_numbers": found.expected.label if found.expected else "",
        "t_measured": seen.time,
        "t_low": seen.low,
        "t_high": seen.high,
        "t_predicted": predicted,
        "relative_error": seen.time / predicted - 1,
        "plateau_start": seen.plateau_start,
        "plateau_end": seen.plateau_end,
        "plateau_loss": seen.plateau_loss,
        "status": found.status,
    }
