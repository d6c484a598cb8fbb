"""Very many curves: the same numbers as one by one, in bounded memory, on threads and on a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from dask.array import from_array
from distributed import Client, LocalCluster

from nqf_pipeline.analysis.bulk import measure_block, measure_curves
from nqf_pipeline.analysis.curves import describe
from nqf_pipeline.analysis.curves.columns import Series
from nqf_pipeline.errors import InputError
from tests.analysis.curve_files import noise, power_law, staircase

TIME = np.geomspace(1, 1e4, 200)


def mixed(rng: np.random.Generator) -> np.ndarray:
    """Power laws, a staircase, an exponential decay, a rise, and losses without a logarithm."""
    laws = [power_law(TIME, exponent, 3e-3, 0.01, "white", rng) for exponent in (0.4, 0.8, 1.2)]
    stairs = staircase(TIME / 15, 0.3 ** np.arange(4.0))[0] * np.exp(0.01 * noise("white", 200, rng))
    return np.stack([*laws, stairs, np.exp(-TIME / 300) + 0.01, TIME**0.2, TIME**-0.5 * np.where(TIME > 50, np.nan, 1.0), 0.5 - TIME**0.1])


def test_each_curve_is_measured_as_it_is_alone(rng: np.random.Generator) -> None:
    loss = mixed(rng)
    laws, events = measure_block(TIME, loss)
    assert laws["status"].tolist() == ["ok"] * 3 + ["not_resolved"] * 5
    assert laws["reason"].tolist()[6:] == ["some losses are not finite and positive"] * 2
    for number in range(6):
        (alone,) = describe(Series("loss", "step", TIME, loss[number], None))
        own = events[events["curve"] == number]
        assert own[own["event"] == "drop"]["time"].tolist() == pytest.approx([drop.time for drop in alone.drops])
        assert own[own["event"] == "plateau"]["loss"].tolist() == pytest.approx([plateau.loss for plateau in alone.plateaus])
        assert (laws["plateaus"][number], laws["drops"][number]) == (len(alone.plateaus), len(alone.drops))
        if alone.law:
            assert laws["exponent"][number] == pytest.approx(alone.law.exponent, rel=1e-6)
            assert laws["floor"][number] == pytest.approx(alone.law.floor, rel=1e-5)
            assert laws["window_start"][number] == pytest.approx(alone.law.window.start)
            half = (laws["ci_high"][number] - laws["ci_low"][number]) / (alone.law.high - alone.law.low)
            assert 0.6 < half < 1.5
    assert laws["drops"][3] == 4


def test_blocks_change_nothing(rng: np.random.Generator) -> None:
    loss = mixed(rng)
    whole = measure_curves(TIME, loss, scheduler="synchronous")
    for same in (loss, from_array(loss, chunks=(5, 100))):
        cut = measure_curves(TIME, same, rows=3, scheduler="threads")
        pd.testing.assert_frame_equal(whole.laws, cut.laws)
        pd.testing.assert_frame_equal(whole.events, cut.events)


def test_a_cluster_gives_the_same_tables(rng: np.random.Generator, tmp_path: Path) -> None:
    store = zarr.create_array(tmp_path / "loss.zarr", shape=(8, 200), chunks=(4, 200), dtype="float64")
    store[:] = mixed(rng)
    here = measure_curves(TIME, store, rows=4)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, processes=True) as cluster, Client(cluster):
        there = measure_curves(TIME, store, rows=4)
    pd.testing.assert_frame_equal(here.laws, there.laws)
    pd.testing.assert_frame_equal(here.events, there.events)


@pytest.mark.parametrize(
    ("time", "shape", "message"),
    [(np.arange(5.0), (2, 5), "time 0"), (np.array([1.0, 3, 2]), (2, 3), "increasing"), (np.arange(1.0, 4), (3, 2), r"\(3, 2\)")],
)
def test_bad_arrays_are_refused(time: np.ndarray, shape: tuple[int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure_curves(time, np.ones(shape))


LIMITED = """
import resource, sys
import numpy as np, zarr
from nqf_pipeline.analysis.bulk import measure_curves
store = zarr.open_array(sys.argv[1], mode="r")
time = np.geomspace(1, 1e4, store.shape[1])
measure_curves(time, store[:4], rows=2, scheduler="synchronous")  # what every run needs is loaded before memory is limited
used = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (used + store.nbytes // 10,) * 2)
try:
    store[:]
except MemoryError:
    print("too large to load")
laws = measure_curves(time, store, rows=2, scheduler="synchronous").laws
print(len(laws), (laws["status"] == "ok").mean(), np.abs(laws["exponent"] - 0.7).max())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by a Linux facility")
def test_a_store_ten_times_larger_than_the_memory(rng: np.random.Generator, tmp_path: Path) -> None:
    """The limit is the system's, on all memory the process takes beyond its libraries."""
    shape = (480, 40_000)
    store = zarr.create_array(tmp_path / "loss.zarr", shape=shape, chunks=(2, shape[1]), dtype="float64", compressors=None)
    law = np.geomspace(1, 1e4, shape[1]) ** -0.7
    for first in range(0, shape[0], 40):
        store[first : first + 40] = law * np.exp(0.02 * rng.standard_normal((40, shape[1]), dtype=np.float32))
    done = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path / "loss.zarr")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    refused, measured = done.stdout.strip().splitlines()
    assert refused == "too large to load"
    count, resolved, error = (float(word) for word in measured.split())
    assert (count, resolved) == (480, 1)
    assert error < 0.01
