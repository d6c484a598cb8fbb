"""Figures and words of a study with very many cells, few of them networks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nqf_pipeline.report import figures, laws
from nqf_pipeline.report.canvas import Drawing, bound, panels, save
from nqf_pipeline.report.data import USED, Findings
from nqf_pipeline.report.exponents import _title as exponents_title
from nqf_pipeline.report.kinds import counted, whose
from nqf_pipeline.report.names import TIER_NAMES
from nqf_pipeline.report.run import _title as run_title
from nqf_pipeline.report.style import theme
from nqf_pipeline.report.verdict import _cells, _exponents
from nqf_pipeline.store.tables import arrange, read_table
from nqf_pipeline.study.config import ReportSettings

LOOK = ReportSettings(dpi=150)
LARGEST_SVG = 1_000_000
CELLS = 20_000
TRAIN = np.array(["network_and_twin", "twin", "nothing"])


def findings(**parts):
    """Findings of tables and an index that are given."""
    study = Findings.__new__(Findings)
    index = parts.pop("index", pd.DataFrame())
    study.__dict__ |= {"study": SimpleNamespace(index=index)} | parts
    return study


@pytest.fixture(scope="module")
def many():
    """20,000 trained cells: ignitions by three tiers, a third of them of networks beside their twins."""
    rng = np.random.default_rng(0)
    train = np.where(np.arange(CELLS) % 3 == 0, "network_and_twin", "twin")
    cells = pd.DataFrame({"cell": [f"{i:016x}" for i in range(CELLS)], "train": train, "architecture": "mlp", "optimizer": "gd"})
    cells = cells.assign(task="teacher", sigma=rng.choice([0.1, 0.01, 0.001], CELLS), seed=np.arange(CELLS), status=1, width=16)
    cells["regime"] = rng.choice(["orthogonal_features", "whitened_feedforward", "isotropic"], CELLS)
    cells["standing"] = rng.choice(["exact", "local", "conditional"], CELLS)
    cells["timing_error"] = rng.uniform(0.01, 0.1, CELLS)
    rows = []
    for source, tier in (("network", "twin"), ("network", "discrete"), ("twin", "discrete"), ("twin", "asymptote")):
        own = cells if source == "twin" else cells[cells["train"] == "network_and_twin"]
        predicted, error = 10 ** rng.uniform(1, 3, len(own)), rng.normal(0, 0.05, len(own))
        rows.append(own.assign(source=source, tier=tier, mode=1, t_predicted=predicted, t_measured=predicted * (1 + error)))
        rows[-1] = rows[-1].assign(relative_error=error, status="matched").drop(columns=["regime", "standing", "timing_error"])
    return findings(plateaus=pd.concat(rows, ignore_index=True), index=cells)


@pytest.mark.parametrize("name", ["regimes", "ignition"])
def test_a_figure_of_many_cells_stays_small(many, name, tmp_path):
    with theme():
        drawing = figures.FIGURES[name](many, LOOK)
        assert isinstance(drawing, Drawing)
        (path,) = save(drawing, tmp_path, name, ["svg"], LOOK.dpi)
    assert path.stat().st_size < LARGEST_SVG


@pytest.mark.parametrize("kind", ["points", "lines", "bars"])
def test_whatever_is_drawn_the_file_stays_small(kind, tmp_path):
    rng = np.random.default_rng(1)
    with theme():
        figure, axes = panels(2, 3, 2.0, "many")
        for axis in axes.flat:
            if kind == "points":
                axis.plot(*rng.normal(size=(2, 30_000)), "o")
                axis.scatter(*rng.normal(size=(2, 10_000)))
            elif kind == "lines":
                axis.plot(rng.normal(size=(200, 500)).cumsum(0))
            else:
                axis.vlines(rng.normal(size=5_000), 0, 1)
        (path,) = save(Drawing(figure, "", ""), tmp_path, kind, ["svg"], LOOK.dpi)
    assert path.stat().st_size < LARGEST_SVG


def test_few_curves_stay_lines():
    with theme():
        figure, axes = panels(1, 1, 2.0, "few")
        (line,) = axes[0, 0].plot(np.arange(100.0))
        bound(figure)
    assert not line.get_rasterized()


def test_the_bands_of_regimes_are_those_of_the_errors(many):
    with theme():
        drawing = figures.FIGURES["regimes"](many, LOOK)
    table = many.plateaus.merge(many.index[["cell", "regime", "standing"]], on="cell")
    own = table[(table["source"] == "twin") & (table["regime"] == "orthogonal_features") & (table["tier"] == "asymptote")]
    size = own.loc[own["standing"].isin(["exact", "local"]), "relative_error"].abs()
    whole, band, median = drawing.figure.axes[0].get_lines()[:3]
    assert list(whole.get_xdata()) == pytest.approx([size.min(), size.max()])
    assert list(band.get_xdata()) == pytest.approx(list(size.quantile([0.05, 0.95])))
    assert list(median.get_xdata()) == pytest.approx([size.median()])


def test_twins_alone_have_their_own_panel_and_words(many):
    with theme():
        drawing = figures.FIGURES["ignition"](many, LOOK)
    titles = [axis.get_title(loc="left") for axis in drawing.figure.axes[:3]]
    assert [title.split("\n")[0] for title in titles] == ["trained twin", "discrete recursion", "twins alone: finest prediction"]
    alone = many.plateaus.query("train == 'twin' and tier == 'discrete'")
    assert f"n {len(alone):,}" in titles[2]
    assert "Networks ignite" in drawing.title
    assert "twins alone" in drawing.title


def test_a_study_of_twins_alone_speaks_of_no_network(many):
    only = findings(plateaus=many.plateaus[many.plateaus["train"] == "twin"], index=many.index)
    with theme():
        drawing = figures.FIGURES["ignition"](only, LOOK)
    assert drawing.title.startswith("Twins alone ignite")
    assert "etwork" not in drawing.title
    assert {axis.get_title(loc="left").split("\n")[0] for axis in drawing.figure.axes[:2]} <= set(TIER_NAMES.values())


def test_kinds_of_cells_are_counted():
    cells = pd.DataFrame({"train": np.repeat(TRAIN, (2, 1, 3)), "status": "done"})
    words = "2 networks beside their twins, 1 twin alone and 3 only predicted"
    assert counted(cells) == words
    assert _cells(cells) == f"6 of 6 cells are done: {words}."
    assert run_title(cells, pd.DataFrame()) == f"6 of 6 cells done: {words}"
    assert counted(cells.iloc[:1]) == "1 network beside its twin"
    assert counted(cells.drop(columns="train")) == "6 networks beside their twins"
    assert _cells(cells.assign(status="missing")) == "0 of 6 cells are done (6 missing)."


def fits(task, *rows):
    """Fits by (source, train), all resolved; a store from before `train` has none of it."""
    shared = {"task": task, "architecture": "diagonal", "optimizer": "gd", "theta": 0.5, "decades": 1.0, "epsilon": 1e-4, "sigma": 0.01}
    shared |= {"exponent": 1.0, "predicted_finite": 1.0, "predicted_limit": 1.1, "status": "ok", "reason": "", "bucket": "b"}
    return pd.DataFrame([shared | {"source": source, "train": train} for source, train in rows])


def test_exponents_of_twins_alone_are_called_so():
    network, twin = ("network", "network_and_twin"), ("twin", "twin")
    assert whose(fits("feature_power_law", network)) == ""
    assert exponents_title(fits("feature_power_law", twin)).startswith("Measured exponents of twins alone lie")
    both = fits("feature_power_law", network, twin, twin)
    assert exponents_title(both).startswith("Measured exponents (1 of networks, 2 of twins alone) lie")
    (sentence,) = _exponents(findings(exponents=both))
    assert "3 of 3 exponents of power-law features (1 of networks, 2 of twins alone) are resolved" in sentence


def test_exponents_of_a_study_that_trains_nothing_are_called_predictions():
    foretold = pd.concat([fits("feature_power_law", ("theory", "nothing")).assign(epsilon=e, alpha1=2.0, alpha2=0.8) for e in (1e-3, 1e-6)])
    foretold["exponent"] = foretold["predicted_finite"] = [1.21, 1.155]
    study = findings(exponents=foretold, index=foretold[["architecture", "task", "alpha1", "alpha2"]])
    with theme():
        drawing = figures.FIGURES["exponents"](study, LOOK)
    assert (
        drawing.title
        == "Predicted exponents, nothing trained: 1.16 to 1.21, off their limit by 10\u00a0% at ε = 0.001 and 5.0\u00a0% at ε = 1e-6"
    )
    (axis,) = drawing.figure.axes
    assert not axis.containers, "an interval of a measurement that was not made"
    assert [text.get_text() for text in drawing.figure.legends[0].get_texts()] == ["predicted (nothing is trained)", "limit, ε → 0"]
    (sentence,) = _exponents(study)
    assert sentence.startswith("Nothing is trained of power-law features: 2 exponents are predicted")
    measured = pd.concat([foretold, fits("feature_power_law", ("twin", "twin"))])
    assert all("redicted exponents" not in sentence for sentence in _exponents(findings(exponents=measured)))


def test_a_twin_alone_is_no_network_of_the_fourier_target():
    alone = findings(exponents=fits("fourier", ("twin", "twin")))
    title, caption = laws._fourier_words(alone, [0.5])
    assert "of twins alone" in title
    assert "twin (alone) 1.00" in caption
    assert "network" not in caption
    _, caption = laws._fourier_words(findings(exponents=fits("fourier", ("network", "network_and_twin"), ("twin", "twin"))), [0.5])
    assert caption.startswith("Slopes of the loss: θ = 0.5: network 1.00, twin (alone) 1.00, limit 1.10.")


def test_the_window_map_names_its_curve():
    scan = fits("feature_power_law", *[("twin", "twin")] * 6)
    marks = np.geomspace(10, 1000, 4)
    ends = [(marks[i], marks[j]) for i in range(4) for j in range(i + 1, 4)]
    scan[["window_start", "window_end"]] = ends
    fit = fits("feature_power_law", ("twin", "twin")).assign(window_start=10.0, window_end=1000.0)
    with theme():
        drawing = figures.FIGURES["window_scan"](findings(window_scan=scan, exponents=fit), LOOK)
    assert drawing.figure.axes[0].get_title(loc="left") == "twin (alone)"
    assert "twin (alone)" in drawing.caption


def test_only_used_columns_of_long_tables_are_read(finished):
    for name, used in USED.items():
        whole, part = read_table(finished, name), read_table(finished, name, used)
        assert set(part) == set(whole) & used
        assert set(part) < set(whole)
        pd.testing.assert_frame_equal(part, whole[list(part)])
        assert list(arrange(name, whole)) == list(whole)
