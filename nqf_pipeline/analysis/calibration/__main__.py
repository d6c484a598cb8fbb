"""Draws fresh curves and writes the calibration: `make calibration`."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from nqf_pipeline.analysis.calibration.measure import calibrate
from nqf_pipeline.analysis.calibration.page import write


def main() -> None:
    """Prints the seed first, so that a surprising run can be repeated."""
    parser = argparse.ArgumentParser(prog="python -m nqf_pipeline.analysis.calibration", description=__doc__)
    parser.add_argument("--curves", type=int, default=4000, help="curves of each kind and noise")
    parser.add_argument("--resampled", type=int, default=200, help="of which through the resampled intervals of nqf fit (slower)")
    parser.add_argument("--seed", type=int, help="seed of the curves (default: a fresh one)")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="folder of the page")
    options = parser.parse_args()
    seed = int(np.random.SeedSequence().entropy % 2**32) if options.seed is None else options.seed  # type: ignore[operator]
    print(f"seed {seed}", flush=True)
    for path in write(calibrate(options.curves, np.random.default_rng(seed), options.resampled), seed, options.docs):
        print(path)


if __name__ == "__main__":
    main()
