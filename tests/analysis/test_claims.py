"""The ledger's frame: verdicts follow from numbers, and nothing that a study lacks can stop its analysis."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.analysis import run
from nqf_pipeline.analysis.claims import Claim, Estimate, Evidence, Finding, Unresolved, exactly, mean_of, median_of, share_of, span_of
from nqf_pipeline.analysis.claims import registry as registered
from nqf_pipeline.analysis.claims.registry import registry
from nqf_pipeline.analysis.claims.table import claim_rows
from nqf_pipeline.report.ledger import ledger
from nqf_pipeline.store.open import open_study
from nqf_pipeline.store.query import query
from nqf_pipeline.store.tables import read_table
from nqf_pipeline.study.reading import read_study
from tests.analysis.merged import merged

ROOT = Path(__file__).resolve().parents[2]
number = st.floats(-1e3, 1e3)


@given(number, number, st.floats(0, 10), st.floats(0, 10))
def test_the_verdict_compares_the_interval_with_the_accepted_range(predicted: float, value: float, spread: float, within: float) -> None:
    found = Finding.equals(predicted, Estimate(value, value - spread, value + spread), within, "", absolute=True)
    inside = value - spread >= predicted - within and value + spread <= predicted + within
    outside = value + spread < predicted - within or value - spread > predicted + within
    assert found.verdict == ("holds" if inside else "fails" if outside else "not resolved")


def test_bounds_are_one_sided() -> None:
    assert [Finding.at_most(1.0, x, "").verdict for x in (0.5, 1.0, 1.5)] == ["holds", "holds", "fails"]
    assert [Finding.at_least(1.0, x, "").verdict for x in (0.5, 1.0, 1.5)] == ["fails", "holds", "holds"]
    assert Finding.at_most(1.0, Estimate(0.9, 0.5, 1.3), "").verdict == "not resolved"
    assert Finding.equals(-2.0, -2.1, 0.1, "").verdict == "holds"


@pytest.mark.parametrize("value", [math.nan, Estimate(1.0, math.nan, 2.0)])
def test_nothing_measured_is_not_resolved(value: float | Estimate) -> None:
    assert Finding.at_most(3.0, value, "").verdict == "not resolved"
    assert Finding.unresolved("no cells").verdict == "not resolved"


def test_intervals_cover() -> None:
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((400, 9)) ** 3
    medians = [median_of(row) for row in draws]
    assert np.mean([found.low <= 0 <= found.high for found in medians]) >= 0.95
    means = [mean_of(row) for row in rng.standard_normal((400, 5))]
    assert 0.92 <= np.mean([found.low <= 0 <= found.high for found in means]) <= 0.98
    assert median_of([1.0, 2.0, 4.0]) == Estimate(2.0, 1.0, 4.0)
    assert median_of(range(1, 22)) == Estimate(11.0, 6.0, 16.0)
    assert span_of([3.0, 1.0]) == Estimate(2.0, 1.0, 3.0)
    assert share_of([True] * 36).low == pytest.approx(0.025 ** (1 / 36))


@pytest.mark.parametrize("call", [lambda: mean_of([1.0]), lambda: median_of([math.nan]), lambda: span_of([]), lambda: share_of([])])
def test_too_little_for_an_interval_is_a_reason(call) -> None:
    with pytest.raises(Unresolved):
        call()


# ---- the registry


def test_every_claim_belongs_to_a_study_in_config() -> None:
    names = {read_study(path).name for path in (ROOT / "config").rglob("*.yaml")}
    assert len(registry()) >= 5
    assert {claim.study for claim in registry()} <= names
    for claim in registry():
        assert re.fullmatch(r"[a-z0-9_]+\.[a-z0-9_]+", claim.id), claim.id
        assert claim.statement.endswith("."), claim.id
        assert claim.source, claim.id


def test_no_claim_breaks_on_a_study_that_lacks_its_cells(folder: Path) -> None:
    rows = claim_rows(open_study(folder, allow_partial=True), registry())
    assert len(rows) == len(registry())
    assert not rows["note"].str.contains("broken").any(), rows.loc[rows["note"].str.contains("broken"), ["id", "note"]].to_dict("records")
    assert (rows["note"] != "").all()


def test_two_claims_of_one_id_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = registry()[0]
    monkeypatch.setattr("nqf_pipeline.analysis.claims.subjects.clocks.CLAIMS", (twice, twice))
    with pytest.raises(ValueError, match=re.escape(twice.id)):
        registry.__wrapped__()


# ---- a study's table


def known(name: str, measure: Callable[[Evidence], Finding]) -> Claim:
    return Claim(name, "A statement.", "Theorem 0", "tiny", measure)


CLAIMS = (
    known("a.exponents", lambda e: Finding.at_most(1e-6, span_of(e.exponents(source="network")["relative_error"].abs()), "All of them.")),
    known("b.absent", lambda e: Finding.at_most(0.0, exactly(len(e.cells(architecture="transformer"))), "")),
    known("c.mistake", lambda e: Finding.at_most(0.0, 1 / 0, "")),
    known(
        "d.seeds", lambda e: Finding.equals(1.0, exactly(len(e.curves("network_loss", alpha1=2.0, epsilon=1e-8, seed=0))), 0.0, "Counted.")
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study called `tiny`, analysed while the claims above are registered."""
    target = tmp_path_factory.mktemp("claims") / "tiny"
    target.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registered, "registry", lambda: (*CLAIMS, known("e.elsewhere", CLAIMS[0].measure), *registry()))
        run.analyse(merged(target))
    return target


def test_the_analysis_writes_the_claims_that_name_the_study(folder: Path) -> None:
    table = open_study(folder, allow_partial=True).claims.set_index("id")
    assert table["verdict"].to_dict() == {
        "a.exponents": "holds",
        "b.absent": "not resolved",
        "c.mistake": "not resolved",
        "d.seeds": "fails",
        "e.elsewhere": "holds",
    }
    assert "no cell with architecture = transformer" in table.loc["b.absent", "note"]
    assert "ZeroDivisionError" in table.loc["c.mistake", "note"]
    assert table.loc["d.seeds", "measured"] == 2  # one in each bucket
    failing = query(folder, "claims", "verdict = 'fails'", ["id", "measured", "accept_high"])
    assert failing.to_dict("records") == [{"id": "d.seeds", "measured": 2.0, "accept_high": 1.0}]


def test_a_study_without_claims_has_an_empty_table(tmp_path: Path) -> None:
    target = tmp_path / "nobody_speaks_of_this"
    target.mkdir()
    run.analyse(merged(target))
    table = read_table(target, "claims")
    assert table.empty
    assert "verdict" in table


def test_the_ledger_lists_failures_first_and_what_nobody_measured(folder: Path) -> None:
    claims = (*CLAIMS, known("z.waiting", CLAIMS[0].measure))
    text = ledger(claims, [read_table(folder, "claims")])
    assert "5 claims, 4 of them measured: 1 holds, 1 fails and 2 are not resolved." in text
    places = [text.index(title) for title in ("## Fails", "## Not resolved", "## Not measured yet", "## All that is measured")]
    assert places == sorted(places)
    assert "`d.seeds`" in text[places[0] : places[1]]
    assert "measured **2**" in text[places[0] : places[1]]
    assert "`z.waiting`" in text[places[2] : places[3]]
    assert "e.elsewhere" not in text  # no longer registered
    assert ledger(claims, []).count("## ") == 1
