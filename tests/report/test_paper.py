"""Figures of the paper: each drawn from a study that holds its cells, none from one that does not, and none unasked."""

from __future__ import annotations

import re

import pytest

from nqf_pipeline.report import figures, page
from nqf_pipeline.report.canvas import Drawing, Omitted
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.figures import FIGURES, PAPER
from nqf_pipeline.report.style import theme
from nqf_pipeline.store.open import open_study
from nqf_pipeline.study.config import ReportSettings

LOOK = ReportSettings(dpi=60)
POINTS = {
    "figure2": ("teacher", r"differ by 0\.0\d at σ = 0.001, and by 0\.\d\d at σ = 0.2 \(median"),
    "figure3": ("paper", r"within 0.10 % of the predicted steps; exponent \d\.\d{3}, 1\.250 in the limit"),
    "figure4": ("paper", r"within 0.10 % of the predicted steps"),
    "figure5": ("paper", r"exponents \d\.\d\d \(1\.33\) and \d\.\d\d \(0\.80\), limits in brackets"),
}


@pytest.mark.parametrize("name", POINTS)
def test_a_figure_says_its_point_in_numbers_of_its_study(make, name):
    study, point = POINTS[name]
    with theme():
        drawing = PAPER[name](Findings(open_study(make(study))), LOOK)
    assert isinstance(drawing, Drawing)
    assert re.search(point, drawing.title.replace("\u00a0", " ")), drawing.title
    assert "nan" not in drawing.title + drawing.caption


@pytest.mark.parametrize("name", POINTS)
def test_a_study_without_the_cells_says_so(make, name):
    drawing = PAPER[name](Findings(open_study(make("digits"))), LOOK)
    assert isinstance(drawing, Omitted)
    assert drawing.reason


def test_they_are_drawn_where_named_only(make):
    assert not set(figures.chosen(LOOK)) & set(PAPER)
    assert set(PAPER) < set(FIGURES)
    results = make("paper")
    look = ReportSettings(dpi=60, figures=["figure4", "run"])
    figures.draw(results, look)
    text = page.write(results, look).read_text(encoding="utf-8")
    assert "Figure 4 of the paper" in text
    assert "Figure 3 of the paper" not in text
