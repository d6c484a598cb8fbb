from __future__ import annotations

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nqf_pipeline.report import figures
from nqf_pipeline.report.canvas import Drawing, Omitted
from nqf_pipeline.report.chosen import finest_predictions, matched_networks
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.fits import fit_of
from nqf_pipeline.report.names import HEADINGS, INK, MUTED
from nqf_pipeline.report.run import _caption, run
from nqf_pipeline.report.style import theme
from nqf_pipeline.store.open import open_study
from nqf_pipeline.study.config import ReportSettings

LOOK = ReportSettings(dpi=60)


@pytest.fixture(scope="module")
def drawn(finished):
    return figures.draw(finished, LOOK)


@pytest.fixture(scope="module")
def words(finished, drawn):
    return json.loads((finished / "figures" / "figures.json").read_text())


@pytest.fixture(scope="module")
def study(finished):
    return Findings(open_study(finished))


def test_every_figure_is_drawn_in_every_format(drawn):
    assert [path.name for path in drawn] == [f"{name}.{suffix}" for name in figures.GENERAL for suffix in ("svg", "png")]
    assert all(path.stat().st_size > 5000 for path in drawn)
    assert list(HEADINGS) == list(figures.FIGURES)


def test_redrawing_gives_the_same_bytes(finished, drawn):
    before = {path.name: path.read_bytes() for path in drawn}
    after = {path.name: path.read_bytes() for path in figures.draw(finished, LOOK)}
    assert [name for name in before if before[name] != after[name]] == []


def test_fewer_figures_and_formats_remove_the_others(make):
    results = make("digits")
    figures.draw(results, ReportSettings(dpi=60))
    assert {path.name for path in (results / "figures").glob("*.*")} == {
        "digits.svg",
        "digits.png",
        "ignition.svg",
        "ignition.png",
        "spectra.svg",
        "spectra.png",
        "run.svg",
        "run.png",
    } | {"figures.json"}
    figures.draw(results, ReportSettings(figures=["digits"], formats=["svg"]))
    assert {path.name for path in (results / "figures").glob("*.*")} == {"digits.svg", "figures.json"}


def test_a_study_without_networks_says_what_is_left_out(make):
    results = make("ensemble")
    paths = figures.draw(results, LOOK)
    listing = json.loads((results / "figures" / "figures.json").read_text())
    shown = {"exponents", "window_scan", "power_laws", "spectra", "run"}
    assert {path.stem for path in paths} == shown
    assert {name for name, entry in listing.items() if "omitted" in entry} == set(figures.GENERAL) - shown
    assert listing["modes"]["omitted"] == "no finished network on a teacher task"


def test_an_unknown_figure_is_named_with_its_nearest_spelling(finished):
    with pytest.raises(figures.FigureError, match=r"unknown figure `igniton`.*did you mean `ignition`\?"):
        figures.draw(finished, ReportSettings(figures=["igniton"]))


def test_no_legend_of_what_ran_hides_a_bar(study):
    """Also where there is a single bar, or all are of one length."""
    one = study.cells[study.cells["bucket"] == study.cells["bucket"].iloc[0]]
    for cells in (study.cells, one):
        chosen = SimpleNamespace(cells=cells, timings=study.timings[study.timings["bucket"].isin(cells["bucket"])])
        with theme("ticks"):
            figure = run(chosen, LOOK).figure
            figure.canvas.draw()
        for axis in figure.axes:
            legend = axis.get_legend().get_window_extent()
            bars = [bar.get_window_extent() for bar in axis.patches if bar.get_width()]
            assert bars
            assert not any(legend.overlaps(box) for box in [*bars, *(text.get_window_extent() for text in axis.texts)])


def test_captions_carry_numbers_of_the_tables(study, words):
    table = study.plateaus
    error = table.loc[(table["source"] == "network") & (table["tier"] == "twin"), "relative_error"].abs()
    assert f"n {len(error)}, median {100 * error.median():.1f}\u00a0%, worst {100 * error.max():.0f}\u00a0%" in words["ignition"]["caption"]
    fits = study.exponents[study.exponents["task"] == "feature_power_law"]
    worst = (fits["exponent"] / fits["predicted_finite"] - 1).abs().max()
    assert f"(worst {100 * worst:.2f}\u00a0%)" in words["exponents"]["title"]
    cells = study.cells[(study.cells["task"] == "teacher") & (study.cells["width"] == 64)]
    assert f"the largest gap is {cells['largest_mode_gap'].max():.2g} (query-key attention" in words["departure"]["caption"]


def test_the_kernel_is_named_lazy_or_learning(study, words):
    """Made to change by the learnt strengths over width sigma^2."""
    change = study.cells.loc[(study.cells["task"] == "teacher") & (study.cells["optimizer"] == "gd"), "kernel_change"]
    assert change.median() > 1
    assert "Feature learning at every σ" in words["kernel"]["title"]
    assert "MLP at fixed σ: the change goes as width^-1.0" in words["kernel"]["caption"]


def test_compressed_twins_are_counted_where_the_report_says_what_ran(study):
    cells = study.cells.assign(degrees=64, twin_width=64)
    assert "compressed" not in _caption(cells, study.timings.iloc[:0])
    cells.loc[cells.index[:3], "twin_width"] = 29
    assert "3 of them with compressed twins (29 columns instead of 64)" in _caption(cells, study.timings.iloc[:0])


def test_carried_gradients_are_told_where_the_report_says_what_ran(study):
    assert "gradient" not in _caption(study.cells, study.timings.iloc[:0])
    cells = study.cells.assign(gradient_share=np.nan, gradient_gap=np.nan)
    cells.loc[cells.index[:3], ["gradient_share", "gradient_gap"]] = [[0.1, 1e-4], [0.2, 2e-3], [0.4, 1e-3]]
    said = "3 of them networks whose gradient was computed at 20\u00a0% of the steps (median), off by at most 0.20\u00a0% between"
    assert said in _caption(cells, study.timings.iloc[:0])


def test_the_validity_map_shows_the_trend_in_width(words):
    """Networks were made to lag their twins in inverse proportion to the width."""
    slope = float(re.search(r"width\^(-?[\d.]+)", words["validity"]["title"])[1])
    assert slope == pytest.approx(-1, abs=0.35)


def test_curves_are_those_of_the_smallest_sigma_or_the_one_asked_for(study):
    for sigma, shown in ((None, "0.001"), (0.012, "0.01"), (5.0, "0.2")):
        with theme():
            drawing = figures.FIGURES["learning"](study, LOOK.model_copy(update={"sigma": sigma}))
        assert isinstance(drawing, Drawing)
        assert f"σ = {shown} " in drawing.title


def test_lines_are_the_recorded_curves(study):
    """The solid line of a panel is the network's loss, the dashed one its twin's, the dotted one the discrete tier."""
    with theme():
        drawing = figures.FIGURES["learning"](study, LOOK)
    panel = drawing.figure.axes[0]
    rows = study.select(architecture="mlp", optimizer="gd", sigma=0.001, seed=0, width=64)
    curve = next(study.curves(rows, "network_loss", "twin_loss", "theory_loss"))
    lines = panel.get_lines()[-3:]
    expected = [curve.of("network_loss"), curve.of("twin_loss"), curve.theory("theory_loss", "discrete")]
    for line, values in zip(lines, expected, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values[1:])
    assert [line.get_linestyle() for line in lines] == ["-", "--", "--"]
    assert len({tuple(line._unscaled_dash_pattern[1] or ()) for line in lines}) == 3


def test_colour_is_the_architecture_in_every_figure(study):
    with theme():
        learning, digits = (figures.FIGURES[name](study, LOOK).figure for name in ("learning", "digits"))
    assert learning.axes[0].get_lines()[-3].get_color() in {line.get_color() for line in digits.axes[0].get_lines()} - {INK, MUTED}


def test_departure_map_shows_the_median_over_seeds(study):
    with theme():
        drawing = figures.FIGURES["departure"](study, LOOK)
    axis = drawing.figure.axes[0]
    cells = study.cells
    own = cells[(cells["architecture"] == "mlp") & (cells["optimizer"] == "gd") & (cells["width"] == 64) & (cells["task"] == "teacher")]
    expected = own.groupby("sigma")["largest_mode_gap"].median().to_numpy()
    shown = axis.collections[0].get_array().reshape(-1, 3)[0]
    np.testing.assert_allclose(shown, expected)
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0.001", "0.01", "0.2"]


def test_exponents_reach_towards_the_limit_at_the_left_edge(study):
    with theme():
        drawing = figures.FIGURES["exponents"](study, LOOK)
    axis = drawing.figure.axes[-1]
    assert axis.get_xlim()[0] == 0
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "10⁻⁶", "10⁻⁹", "10⁻¹²"]


def test_unfinished_cells_are_counted_not_drawn(make):
    results = make("teacher", "diverged")
    study = Findings(open_study(results))
    assert 7 not in set(study.select()["seed"])
    with theme():
        drawing = figures.FIGURES["run"](study, LOOK)
    assert drawing.title.startswith("48 of 49 cells done")
    assert "1 diverged" in drawing.caption


def test_empty_tables_omit_their_figures(study):
    bare = Findings.__new__(Findings)
    bare.__dict__ |= study.__dict__ | {"plateaus": pd.DataFrame(), "exponents": pd.DataFrame(), "timings": pd.DataFrame()}
    for name in ("ignition", "exponents"):
        assert isinstance(figures.FIGURES[name](bare, LOOK), Omitted)
    for name in ("modes", "power_laws", "fourier", "run"):
        with theme():
            assert isinstance(figures.FIGURES[name](bare, LOOK), Drawing)


def test_figures_are_drawn_without_jax():
    """`jax` itself may stand in sys.modules as an unloaded proxy; what it would load may not."""
    code = "import sys, nqf_pipeline.report.figures, nqf_pipeline.report.page; print('jaxlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_files_carry_no_date(drawn):
    svg = next(path for path in drawn if path.name == "run.svg").read_text()
    assert not re.search(r"<dc:date>|20\d\d-\d\d-\d\d", svg)


def test_a_network_that_is_its_own_twin_is_not_compared_with_it(study):
    own = study.plateaus.query("tier == 'twin'").iloc[:3].assign(architecture="diagonal", relative_error=0.0)
    other = Findings.__new__(Findings)
    other.__dict__ |= study.__dict__ | {"plateaus": pd.concat([study.plateaus, own])}
    assert len(matched_networks(other)) == len(matched_networks(study))


def test_finest_prediction_is_one_row_per_mode_and_never_the_twin(study):
    table = matched_networks(study)
    finest = finest_predictions(table)
    assert set(finest["tier"]) == {"discrete"}
    assert not finest.duplicated(["cell", "mode"]).any()
    assert len(finest) == len(table.drop_duplicates(["cell", "mode"]))
    without = finest_predictions(table[table["tier"] != "discrete"])
    assert set(without["tier"]) == {"flow"}


def test_a_fit_is_matched_by_its_whole_setting(study):
    cells = study.select(task="feature_power_law", alpha1=2.0, alpha2=0.8)
    for _, cell in cells.iterrows():
        fit = fit_of(study, cell)
        assert (fit["alpha1"], fit["alpha2"], fit["epsilon"]) == (2.0, 0.8, cell["epsilon"])
    assert fit_of(study, cells.iloc[0].copy().replace(2.0, 3.0)) is None


def test_curves_come_in_the_order_of_the_rows(study):
    rows = study.select(task="teacher", sigma=0.01).sample(frac=1.0, random_state=3)
    found = [curve.cell["cell"] for curve in study.curves(rows, "network_loss")]
    assert found == rows["cell"].tolist()
