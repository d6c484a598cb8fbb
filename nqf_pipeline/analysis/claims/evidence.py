"""A study as claims read it: whatever is missing raises Unresolved with what was looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.store.open import Study
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.select import Curves, where


@dataclass(frozen=True)
class Evidence:
    """Tables and curves of one analysed study. Conditions are column=value; floats match within rounding."""

    study: Study

    def cells(self, **conditions: Any) -> pd.DataFrame:
        """Rows of the table `cells` (diverged ones too)."""
        return _some(self.study.cells, "cell", conditions)

    def exponents(self, **conditions: Any) -> pd.DataFrame:
        """Resolved rows of the table `exponents`. Raises Unresolved with the reason of the first fit that is not."""
        rows = _some(self.study.exponents, "exponent", conditions)
        good = rows[rows["status"] == "ok"]
        if good.empty:
            raise Unresolved(f"none of {len(rows)} exponents is resolved; the first because of {rows['reason'].iloc[0]}")
        return good

    def ignitions(self, **conditions: Any) -> pd.DataFrame:
        """Rows of the table `plateaus` of modes that were due or seen (matched and unmatched; no censored ones)."""
        rows = _some(self.study.plateaus, "ignition", conditions)
        rows = rows[rows["status"] != "censored"]
        if rows.empty:
            raise Unresolved(f"no mode ignites, or is due, with {_spelt(conditions)}")
        return rows

    def matched(self, **conditions: Any) -> pd.DataFrame:
        """Rows of the table `plateaus` with an ignition both measured and predicted by the row's tier."""
        rows = self.ignitions(**conditions)
        rows = rows[rows["status"] == "matched"]
        if rows.empty:
            raise Unresolved(f"no ignition is both measured and predicted with {_spelt(conditions)}")
        return rows

    def drops(self, **conditions: Any) -> pd.DataFrame:
        """Rows of the table `drops` that are due or seen in full (no censored ones)."""
        rows = _some(self.study.drops, "drop", conditions)
        rows = rows[rows["status"] != "censored"]
        if rows.empty:
            raise Unresolved(f"no drop is seen in full, or is due, with {_spelt(conditions)}")
        return rows

    def curves(self, *names: str, **conditions: Any) -> list[Curves]:
        """Named variables of the finished cells, one entry a cell."""
        done = where(self.study.index, status=int(Status.done))
        return list(self.study.curves(_some(done, "finished cell", conditions), *names))


def _some(frame: pd.DataFrame, what: str, conditions: dict[str, Any]) -> pd.DataFrame:
    rows = where(frame, **conditions)
    if rows.empty:
        raise Unresolved(f"the study has no {what} with {_spelt(conditions)}")
    return rows


def _spelt(conditions: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in conditions.items()) or "any coordinates"
