"""The numbers of the last calibration, without the means to make them anew."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

RESULTS = Path(__file__).with_name("results.csv")
COLUMNS = {
    "curve": "curve",
    "recorded": "recorded",
    "noise": "noise",
    "interval": "interval",
    "curves": "curves",
    "resolved": "with exponent",
    "bias": "bias",
    "coverage": "coverage",
    "half_width": "half width",
    "false_plateaus": "false plateaus",
    "missed_drops": "missed drops",
    "extra_drops": "extra drops a curve",
    "time_error": "time error",
    "time_error_95": "95 % below",
    "time_coverage": "coverage of time",
}


def results() -> pd.DataFrame:
    """The last calibration; empty where there is none."""
    return pd.read_csv(RESULTS) if RESULTS.is_file() else pd.DataFrame(columns=list(COLUMNS))
