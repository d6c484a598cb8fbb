"""A job's start-up leaves out what it does not use, and leaves the process as it was."""

from __future__ import annotations

import gc
import subprocess
import sys

from nqf_pipeline.stages.starting import COLLECT_EVERY, quick_start

JOB = """
import sys
from nqf_pipeline.stages.starting import quick_start
with quick_start():
    import numpy as np, xarray as xr
    from nqf_pipeline.store.encoding import pack, unpack
    made = xr.Dataset({"a": (("cell", "step"), np.ones((2, 3)))}, coords={"cell": ["one", "two"]})
    assert unpack(pack(made)).equals(made)
    assert xr.concat([made, made], dim="cell").sizes["cell"] == 4
    assert not [name for name in sys.modules if name.startswith(("dask.array.", "scipy."))], "imported nevertheless"
import dask.array
print(dask.array.ones(3).sum().compute())
"""


def test_a_job_does_without_dask_and_the_process_may_use_it_afterwards() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", JOB], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "3.0", done.stderr


def test_collection_waits_only_within_a_job() -> None:
    before = gc.get_threshold()
    with quick_start():
        assert gc.get_threshold() == (COLLECT_EVERY, *before[1:])
    assert gc.get_threshold() == before
