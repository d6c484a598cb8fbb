"""Claims about drops on tables with a known answer."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from nqf_pipeline.analysis.claims import Evidence, Unresolved
from nqf_pipeline.analysis.claims.subjects.drops import at_predicted, drops_per_mode

MATCHED, ALONE, SILENT, LATER = "matched", "unmatched_plateau", "unmatched_mode", "censored"


def evidence(*rows: tuple[str, str, float, str], epsilon: float = 1e-9) -> Evidence:
    names = ["cell", "mode_numbers", "relative_error", "status"]
    table = pd.DataFrame(rows, columns=names)
    return Evidence(SimpleNamespace(drops=table.assign(source="network", tier="flow", epsilon=epsilon, seed=table["cell"].map(ord))))


def test_drops_without_partner_and_far_ones_count_against_the_prediction() -> None:
    both = evidence(("a", "1", 0.004, MATCHED), ("a", "2", -0.004, MATCHED), ("a", "3", float("nan"), LATER), ("b", "1", 0.0, MATCHED))
    found = at_predicted("flow", 0.01)(both)
    assert (found.measured, found.verdict) == (1.0, "holds")
    far = at_predicted("flow", 0.003)(both)
    assert (far.measured, far.low, far.high, far.verdict) == (0.5, 0.0, 1.0, "not resolved")
    for status in (ALONE, SILENT):
        found = at_predicted("flow", 0.01)(evidence(("a", "1", 0.0, MATCHED), ("a", "2", float("nan"), status)))
        assert (found.measured, found.verdict) == (0.5, "fails")


def test_modes_in_a_common_drop_have_none_of_their_own() -> None:
    assert drops_per_mode("flow")(evidence(("a", "1", 0.0, MATCHED), ("a", "2", 0.0, MATCHED))).verdict == "holds"
    rows = [("a", "1", 0.0, MATCHED), ("a", "2-3-4", 0.0, MATCHED), ("a", "", float("nan"), ALONE)]
    found = drops_per_mode("flow")(evidence(*rows))
    assert (found.measured, found.verdict) == (0.25, "fails")


def test_nothing_due_is_not_resolved() -> None:
    with pytest.raises(Unresolved, match="no drop is seen in full"):
        at_predicted("flow", 0.01)(evidence(("a", "1", float("nan"), LATER)))
    with pytest.raises(Unresolved, match="no drop"):
        at_predicted("flow", 0.01, most=1e-12)(evidence(("a", "1", 0.0, MATCHED)))
