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
from jaxtyping import Bool, Float

from nqf_pipeline.analysis.drops.expected import Prediction, readings
from nqf_pipeline.analysis.drops.match import Match, match
from nqf_pipeline.analysis.drops.seen import Seen, lifted, look
from nqf_pipeline.analysis.sources import sources_of
from nqf_pipeline.analysis.suddenness import half_and_width
from nqf_pipeline.store.schema import TIERS
from nqf_pipeline.theory.ignition import crossing

_READ = ("step_number", "mode_number", "twin_mode", "twin_loss")
_BY_TIER = ("theory_mode", "theory_loss", "theory_ignition")
NOTHING = Seen(*(float("nan"),) * 6)


def drop_rows(dataset: xr.Dataset, coordinates: pd.DataFrame) -> pd.DataFrame:
    """Rows for all cells of a (loaded) dataset; `coordinates` has one row per cell."""
    cells = np.flatnonzero(predicted_staircases(dataset))
    if not len(cells) or not sources_of(dataset):
        return pd.DataFrame()
    dataset, coordinates = dataset.isel(cell=cells), coordinates.iloc[cells].reset_index(drop=True)
    steps = dataset["step_number"].to_numpy()
    sources = sources_of(dataset)
    curves = {source: look(steps, dataset[f"{source}_loss"].to_numpy()) for source in sources}
    tiers = [str(tier) for tier in dataset["tier"].to_numpy()]
    arrays = {
        name: dataset[name].transpose("cell", *(("tier",) if name in _BY_TIER else ()), ...).to_numpy() for name in (*_READ, *_BY_TIER)
    }
    rows = []
    for cell in range(len(cells)):
        said = _Said.of({name: values[cell] for name, values in arrays.items()}, tiers)
        for tier, prediction in said.tiers():
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
    """One cell and what is predicted of it."""

    cell: dict[str, np.ndarray]
    """Its arrays by name; predictions by tier first."""
    names: list[str]
    """Of the tiers."""
    steps: Float[np.ndarray, "records"]
    widths: Float[np.ndarray, "modes"]
    """Of the finest tier that predicts each mode's strength; a coarser one moves steps, and does not know their widths."""

    @classmethod
    def of(cls, cell: dict[str, np.ndarray], names: list[str]) -> _Said:
        steps = cell["step_number"]
        widths = np.full(cell["mode_number"].shape, np.nan)
        for tier in (tier for tier in reversed(TIERS) if tier in names):
            widths = np.where(np.isnan(widths), _width(steps, cell["theory_mode"][names.index(tier)]), widths)
        return cls(cell, names, steps.astype(float), widths)

    def tiers(self) -> Iterator[tuple[str, Prediction]]:
        """Each tier with a statement about the cell, then the twin."""
        for tier, time, loss in zip(self.names, self.cell["theory_ignition"], self.cell["theory_loss"], strict=True):
            if not np.isnan(time).all():
                yield tier, self._prediction(time, self.widths, loss)
        steps, strength = self.cell["step_number"], np.nan_to_num(self.cell["twin_mode"])
        yield "twin", self._prediction(crossing(steps, strength), half_and_width(steps, strength)[1], self.cell["twin_loss"])

    def _prediction(self, time: np.ndarray, width: np.ndarray, loss: np.ndarray) -> Prediction:
        return Prediction(self.cell["mode_number"], time, width, self.steps, lifted(loss))


def _width(steps: np.ndarray, strength: np.ndarray) -> Float[np.ndarray, "modes"]:
    """NaN for modes that the tier has no curve of, or that do not rise."""
    width = half_and_width(steps, np.nan_to_num(strength))[1]
    return np.where(np.isfinite(strength).all(0) & (width > 0), width, np.nan)


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
