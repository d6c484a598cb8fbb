"""Ignition of a study that trains nothing: predictions are drawn, and called so."""

from __future__ import annotations

import numpy as np
import pytest

from nqf_pipeline.report import figures
from nqf_pipeline.report.canvas import Drawing, Omitted
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.style import theme
from nqf_pipeline.store.open import open_study
from nqf_pipeline.study.config import ReportSettings

LOOK = ReportSettings(dpi=60)
EPSILONS = (1e-12, 1e-9, 1e-6)


def drawn(study: Findings) -> Drawing | Omitted:
    with theme():
        return figures.FIGURES["ignition"](study, LOOK)


def test_predicted_steps_are_shown_by_mode_and_sigma(make) -> None:  # type: ignore[no-untyped-def]
    drawing = drawn(Findings(open_study(make("foretold"))))
    assert isinstance(drawing, Drawing)
    (axis,) = drawing.figure.axes
    lines = [line for line in axis.get_lines() if line.get_marker() == "o"]
    for line, epsilon in zip(lines, EPSILONS, strict=True):
        modes = np.array([1, 10, 100])
        np.testing.assert_array_equal(line.get_xdata(), modes)
        np.testing.assert_allclose(line.get_ydata(), -np.log(epsilon) * modes**0.8)
        assert float(line.get_label().removeprefix("σ = ")) == pytest.approx(np.sqrt(epsilon), rel=0.1)
    assert drawing.title == "Predicted ignition, nothing trained: from step 14 to 1,100"
    assert drawing.caption.startswith("One seed of each setting, 3 of 6 cells that are only predicted; no point is measured.")
    words = [text.get_text() for text in drawing.figure.legends[0].get_texts()]
    assert words == ["finest prediction (nothing is trained)", "asymptote (epsilon to 0)"]


def test_trained_cells_without_a_match_are_not_called_predicted(make) -> None:  # type: ignore[no-untyped-def]
    assert drawn(Findings(open_study(make("ensemble")))) == Omitted("no matched ignition")
