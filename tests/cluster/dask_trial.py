"""What the trials of SLURM workers run in a process of their own: `python -m tests.cluster.dask_trial WHAT RESULTS`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from nqf_pipeline.analysis.run import analyse
from nqf_pipeline.analysis.workers import workers
from nqf_pipeline.study.config import DaskSettings

SETTINGS = DaskSettings(kind="slurm", workers=2, queue="main", interface="lo", memory="1GB", minutes=10)
NUMBERS = list(range(12))
SECONDS = 2.0
"""Of each slow task."""


def slowly(number: int) -> int:
    time.sleep(SECONDS)
    return number**2


def refuse(number: int) -> int:
    raise ValueError(f"no {number}")


def main(what: str, results: Path) -> None:
    if what == "analyse":
        analyse(results, where=SETTINGS)
        return
    with workers(SETTINGS, 0, results) as spread:
        print("workers are there", flush=True)
        print(json.dumps(spread({"slowly": slowly, "refuse": refuse}[what], NUMBERS)))


if __name__ == "__main__":
    from tests.cluster import dask_trial  # tasks travel by the name of their module, which is not __main__ on the workers

    dask_trial.main(sys.argv[1], Path(sys.argv[2]))
