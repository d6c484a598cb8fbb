"""Threads, processes and their errors; SLURM workers are tried in tests/cluster."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from nqf_pipeline.analysis.workers import MANY_CELLS, granted, workers
from nqf_pipeline.errors import InputError
from nqf_pipeline.study.config import DaskSettings, EngineSettings


def where(number: int) -> tuple[int, int, list[int]]:
    """The task, and the process and cores that do it."""
    time.sleep(0.2)
    return number, os.getpid(), sorted(os.sched_getaffinity(0))


def test_processes_are_pinned_and_answer_in_order(tmp_path: Path) -> None:
    with workers(DaskSettings(kind="processes"), 0, tmp_path) as spread:
        found = spread(where, range(8))
    assert [number for number, *_ in found] == list(range(8))
    cores = {process: tuple(own) for _, process, own in found}
    assert os.getpid() not in cores
    assert len(cores) == len(set(cores.values())) == min(2, len(granted()))
    assert all(len(own) == 1 for own in cores.values())


@pytest.mark.parametrize(("cells", "apart"), [(MANY_CELLS - 1, False), (MANY_CELLS, len(granted()) > 1)])
def test_only_large_studies_start_processes(cells: int, apart: bool, tmp_path: Path) -> None:
    with workers(DaskSettings(), cells, tmp_path) as spread:
        assert (spread(where, [0])[0][1] != os.getpid()) == apart


def test_without_dask_jobqueue_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "dask_jobqueue.slurm", None)
    with pytest.raises(InputError, match=r"nqf-pipeline\[cluster\].*dask: processes"), workers(DaskSettings(kind="slurm"), 0, tmp_path):
        pass


def test_a_word_is_enough() -> None:
    assert EngineSettings.model_validate({"dask": "slurm"}).dask == DaskSettings(kind="slurm")
