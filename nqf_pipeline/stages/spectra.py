"""Spectra of a study's cells and whether they have a power-law range: for `nqf predict` and for the tables. Trains nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from nqf_pipeline.store.tables import write_table
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.draws import problem_of
from nqf_pipeline.study.identity import digest
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.ranges import Law, Range, power_law_range
from nqf_pipeline.theory.spectra import Spectrum, spectra

Document = dict[str, Any]
NAMES = ("rates", "loss shares")
_NOT_OF_DATA = frozenset(
    {"cell", "bucket", "experiment", "optimizer", "sigma", "epsilon", "steps", "records", "precision", "time_scale", "degrees", "start"}
    | {"learning_rate", "momentum", "weight_decay", "batch_size", "beta1", "beta2", "eps"}
)
"""Coordinates that a spectrum does not depend on."""


def spectrum_id(cell: Cell) -> str:
    """Cells with equal ids have one spectrum: same data, same architecture."""
    return digest([cell.data_id, cell.architecture])


def described(spectrum: Spectrum) -> Document:
    """One spectrum: is there a power-law range, which exponents, and what follows for the loss in the limit."""
    found = power_law_range([spectrum.rate, spectrum.share], NAMES)
    rate, share = (*found.laws, None, None)[:2]
    limit = _limit(found)
    return {
        "convention": spectrum.convention,
        "modes": len(spectrum.rate),
        "defect": spectrum.defect,
        "power_law": found.found,
        "reason": found.reason,
        "first_mode": found.first,
        "last_mode": found.last,
        "decades": found.decades,
        **_law("alpha1", share),
        **_law("alpha2", rate),
        "exponent": limit[0],
        "exponent_low": limit[1],
        "exponent_high": limit[2],
    }


def _law(name: str, law: Law | None) -> Document:
    if law is None:
        return dict.fromkeys((f"{name}", f"{name}_low", f"{name}_high", f"{name}_bend"), float("nan"))
    return {name: law.exponent, f"{name}_low": law.low, f"{name}_high": law.high, f"{name}_bend": law.bend}


def _limit(found: Range) -> tuple[float, float, float]:
    """(alpha1 - 1) / alpha2 with the interval that both intervals span; not a number without a range, or where the loss would not fall."""
    if not found.found or found.laws[1].exponent <= 1:
        return (float("nan"),) * 3
    rate, share = found.laws
    return (share.exponent - 1) / rate.exponent, max(share.low - 1, 0) / rate.high, (share.high - 1) / rate.low


class Spectra:
    """Spectra of many cells, each described once."""

    def __init__(self) -> None:
        self._known: dict[str, list[Document]] = {}

    def of(self, cell: Cell, problem: Problem) -> list[Document]:
        """Documents of one cell, one a convention."""
        name = spectrum_id(cell)
        if name not in self._known:
            self._known[name] = [described(spectrum) for spectrum in spectra(cell.architecture, problem)]
        return self._known[name]


@threadpool_limits.wrap(limits=1)  # many small factorisations: threads only wait for each other
def write_spectra(results: Path, cells: Iterable[Cell]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write the tables `spectra` (a row a mode) and `spectral_laws` (a row a spectrum).

    Data drawn anew for each seed are represented by those of the first.
    """
    chosen: dict[Any, Cell] = {}
    for cell in sorted(cells, key=lambda cell: (cell.seed, cell.id)):
        chosen.setdefault((cell.architecture, cell.task, cell.fingerprint), cell)
    modes, laws = [], []
    for cell in chosen.values():
        named = {"architecture": cell.architecture.name, "task": cell.task.name, "spectrum": spectrum_id(cell)}
        coordinates = {name: value for name, value in cell.coordinates().items() if name not in _NOT_OF_DATA}
        for spectrum in spectra(cell.architecture, problem_of(cell)):
            laws.append({**coordinates, **named, **described(spectrum)})
            modes.append(_rows(named, spectrum))
    return (
        write_table(results, "spectra", pd.concat(modes, ignore_index=True) if modes else pd.DataFrame()),
        write_table(results, "spectral_laws", pd.DataFrame(laws).astype({"power_law": "int64"}) if laws else pd.DataFrame()),
    )


def _rows(named: Document, spectrum: Spectrum) -> pd.DataFrame:
    columns = {"number": spectrum.number.astype(np.int64), "rate": spectrum.rate, "share": spectrum.share, "curvature": spectrum.curvature}
    return pd.DataFrame({**columns, **named, "convention": spectrum.convention})
