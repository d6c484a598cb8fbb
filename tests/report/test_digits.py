"""The picture of the digits: a column an architecture, losses above accuracies, a line where curves part."""

from __future__ import annotations

import numpy as np
import pytest

from nqf_pipeline.analysis.parting import parting
from nqf_pipeline.report.canvas import Drawing, Omitted
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.digits import digits
from nqf_pipeline.report.names import MUTED
from nqf_pipeline.report.style import theme
from nqf_pipeline.store.open import open_study
from nqf_pipeline.study.config import ReportSettings

LOOK = ReportSettings()


@pytest.fixture
def drawn(make):
    study = Findings(open_study(make("digits")))
    with theme():
        drawing = digits(study, LOOK)
    assert isinstance(drawing, Drawing)
    return study, drawing


def test_lines_stand_where_losses_part(drawn) -> None:
    study, drawing = drawn
    rows = study.select(task="digits")
    found = {}
    for curve in study.curves(rows, "network_loss", "twin_loss"):
        found[curve.cell["architecture"]] = parting(curve.of("network_loss"), curve.of("twin_loss"), curve.steps)
    axes = drawing.figure.axes
    assert len(axes) == 2 * len(found) == 6
    for upper, lower, item in zip(axes[:3], axes[3:], (found[name] for name in ("mlp", "cnn", "multi_head")), strict=True):
        for axis in (upper, lower):
            marks = [line.get_xdata()[0] for line in axis.get_lines() if line.get_color() == MUTED]
            assert marks == ([] if np.isnan(item.step) else [item.step])
    parted = sum(np.isfinite(item.step) for item in found.values())
    assert sum("part at step" in text.get_text() for axis in axes for text in axis.texts) == parted > 0


def test_accuracies_are_drawn_and_told(drawn) -> None:
    study, drawing = drawn
    (curve,) = study.curves(study.select(task="digits", architecture="mlp"), "network_test_accuracy", "twin_test_accuracy")
    own, twin = (curve.of(f"{name}_test_accuracy")[1:] for name in ("network", "twin"))
    lines = [line.get_ydata() for line in drawing.figure.axes[3].get_lines()]
    assert any(np.array_equal(line, own) for line in lines)
    assert any(np.array_equal(line, twin) for line in lines)
    assert f"({round(100 * own[-1])} %" in drawing.caption.replace("\u00a0", " ")


def test_no_digits_no_figure(make) -> None:
    assert isinstance(digits(Findings(open_study(make("teacher"))), LOOK), Omitted)
