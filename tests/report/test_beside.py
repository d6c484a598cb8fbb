"""Figures drawn by two processes: each once, the same as by one, and no failure of the other process is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import pytest

from nqf_pipeline.errors import InputError, WorkError
from nqf_pipeline.report import figures
from nqf_pipeline.report.beside import Entries, shared
from nqf_pipeline.study.config import ReportSettings
from tests.workflow.runs import PATIENCE

NAMES = [f"figure{i}" for i in range(8)]


def _taken(here: int, names: Iterator[str]) -> Entries:
    """Draws nothing; this process waits for the other to take one, so that both have some."""
    found: Entries = {}
    for name in names:
        found[name] = {"title": str(os.getpid() == here)}
        deadline = monotonic() + PATIENCE
        while os.getpid() == here and not _seen(here).exists():
            assert monotonic() < deadline, "the other process took no figure"
            sleep(0.01)
        _seen(here).touch()
    return found


def _seen(here: int) -> Path:
    return Path(os.environ["NQF_TEST_SEEN"]) / str(here)


def _failing(here: int, kind: str, names: Iterator[str]) -> Entries:
    if os.getpid() != here:
        if kind == "input":
            raise InputError("no such palette")
        os._exit(1)
    return {name: {} for name in names}


def test_each_figure_is_drawn_once_and_stands_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NQF_TEST_SEEN", str(tmp_path))
    found = shared(partial(_taken, os.getpid()), NAMES, 2)
    assert list(found) == NAMES
    assert {entry["title"] for entry in found.values()} == {"True", "False"}


def test_few_figures_start_no_process() -> None:
    assert shared(partial(_failing, os.getpid(), "death"), NAMES[:3], 2) == {name: {} for name in NAMES[:3]}


@pytest.mark.parametrize(
    ("kind", "error", "text"), [("input", InputError, "no such palette"), ("death", WorkError, "did not come to its end")]
)
def test_failures_of_the_other_process_are_raised_here(kind: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        shared(partial(_failing, os.getpid(), kind), NAMES, 2)


def test_two_processes_draw_the_same_figures(make) -> None:  # type: ignore[no-untyped-def]
    results = make("ensemble")
    look = ReportSettings(dpi=60)

    def drawn(processes: int) -> dict[str, bytes]:
        names = [path.name for path in figures.draw(results, look, processes)]
        return {name: (results / "figures" / name).read_bytes() for name in [*names, "figures.json"]}

    assert drawn(2) == drawn(1)
