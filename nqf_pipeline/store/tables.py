"""The tables of a study, described once: names, dtypes, units and meanings of their columns.

`results/<study>/<table>.csv` and `.parquet` hold the same rows. Columns declared here come first, in this order; every further
coordinate of the cells (learning rate, width, exponents of the task, ...) follows in alphabetical order, empty where a cell has none.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.api.types import infer_dtype
from pyarrow import csv

from nqf_pipeline.errors import InputError
from nqf_pipeline.store.atomic import write_bytes, write_json, write_with

Dtype = Literal["string", "float64", "int64"]


@dataclass(frozen=True)
class Column:
    """One column; key columns name the row and fix the order of rows."""

    name: str
    dtype: Dtype
    units: str
    meaning: str
    key: bool = False


_SETTING = (
    Column("architecture", "string", "", "kind of network", key=True),
    Column("task", "string", "", "kind of task", key=True),
    Column("optimizer", "string", "", "kind of optimizer", key=True),
)
_GROUP = (
    *_SETTING,
    Column("sigma", "float64", "weight", "standard deviation of the initial weights", key=True),
    Column("epsilon", "float64", "weight^2", "degrees * sigma^2", key=True),
)
_CELL = (
    *_GROUP,
    Column("seed", "int64", "1", "seed of the cell", key=True),
    Column("cell", "string", "", "identity of the cell", key=True),
    Column("bucket", "string", "", "node of trajectories.zarr that holds the cell"),
)
_STANDING = (
    Column("regime", "string", "", "solution that data and structure admit"),
    Column("standing", "string", "", "what the prediction is: exact, local, conditional, outside"),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "exponents": (
        *_GROUP,
        Column("bucket", "string", "", "node of trajectories.zarr that holds the cells", key=True),
        Column("source", "string", "", "curve: network, twin, or theory", key=True),
        Column("seeds", "int64", "1", "cells (seeds) behind the row"),
        Column("exponent", "float64", "1", "k of loss = A time^-k + floor in the window"),
        Column("ci_low", "float64", "1", "lower end of the interval"),
        Column("ci_high", "float64", "1", "upper end of the interval"),
        Column("ci_method", "string", "", "jackknife_t (over seeds) or subwindows (one seed: sensitivity to the window)"),
        Column("window_start", "float64", "gradient-flow time", "start of the window"),
        Column("window_end", "float64", "gradient-flow time", "end of the window"),
        Column("decades", "float64", "1", "log10(window_end / window_start)"),
        Column("points", "int64", "1", "records in the window"),
        Column("ignitions", "float64", "1", "watched modes that ignite inside the window (mean over seeds)"),
        Column("floor", "float64", "loss", "floor of the fit, given by theory or fitted"),
        Column(
            "predicted_finite",
            "float64",
            "1",
            "the same fit, same window, to the theory's curve (expected before weights are drawn, if any)",
        ),
        Column("predicted_limit", "float64", "1", "exponent for epsilon -> 0 and infinitely many modes"),
        Column("relative_error", "float64", "1", "exponent / predicted_finite - 1"),
        Column("best_model", "string", "", "law with the lowest BIC (docs/fitting.md); `theory` is its finite-size curve (networks only)"),
        Column("power_law_bic", "float64", "1", "BIC of the power law above the best model's; below 10 decides nothing"),
        Column("exponent_before", "float64", "1", "smoothly broken power law: exponent before the break"),
        Column("exponent_after", "float64", "1", "smoothly broken power law: exponent after the break"),
        Column("break_time", "float64", "gradient-flow time", "smoothly broken power law: the break"),
        Column("theory_scale", "float64", "1", "factor by which the curve is slower than theory's finite-size curve fitted to it"),
        Column("theory_misfit", "float64", "1", "root mean square of ln loss about theory's curve, its time and size fitted"),
        Column("theory_bic", "float64", "1", "BIC of theory's curve above the best model's"),
        Column("status", "string", "", "ok or not_resolved"),
        Column("reason", "string", "", "why an exponent is not resolved"),
    ),
    "window_scan": (
        *_GROUP,
        Column("bucket", "string", "", "node of trajectories.zarr that holds the cells", key=True),
        Column("source", "string", "", "curve: network or twin", key=True),
        Column("window_start", "float64", "gradient-flow time", "start of the window", key=True),
        Column("window_end", "float64", "gradient-flow time", "end of the window", key=True),
        Column("decades", "float64", "1", "log10(window_end / window_start)"),
        Column("points", "int64", "1", "records in the window"),
        Column("exponent", "float64", "1", "k of loss = A time^-k + floor in the window"),
        Column("predicted_finite", "float64", "1", "the same fit, same window, to the theory's curve"),
    ),
    "plateaus": (
        *_CELL,
        Column("source", "string", "", "curve: network or twin", key=True),
        Column("mode", "int64", "1", "number of the mode, 1 the strongest", key=True),
        Column("tier", "string", "", "what predicts: asymptote, event, flow, discrete, or twin (the same-init twin, measured)", key=True),
        Column("t_measured", "float64", "step", "first step at which the strength reaches rho"),
        Column("t_uncertainty", "float64", "step", "interpolation error between the records around it"),
        Column("t_predicted", "float64", "step", "prediction; inf: never"),
        Column("t_asymptotic", "float64", "step", "prediction of the asymptote tier"),
        Column("t_low", "float64", "step", "5 % quantile of the predicted ignition over draws of the weights, at these data"),
        Column("t_high", "float64", "step", "95 % quantile of it"),
        Column("relative_error", "float64", "1", "t_measured / t_predicted - 1"),
        Column("plateau_loss", "float64", "loss", "loss on the plateau that the mode's ignition ends"),
        Column("last_step", "float64", "step", "last step with finite numbers"),
        Column("status", "string", "", "matched, unmatched_plateau, unmatched_mode or censored"),
    ),
    "drops": (
        *_CELL,
        Column("source", "string", "", "loss curve: network or twin", key=True),
        Column("tier", "string", "", "what predicts: asymptote, event, flow, discrete, or twin (the same-init twin, measured)", key=True),
        Column("number", "int64", "1", "place in the order of time, from 1", key=True),
        Column("mode_numbers", "string", "", "modes that make the drop, joined by - where a curve cannot tell them apart; empty: none"),
        Column("t_measured", "float64", "step", "drop of the loss: three quarters of the fall are made (half strength of a mode)"),
        Column("t_low", "float64", "step", "lower end of its 95 % interval, from noise and records"),
        Column("t_high", "float64", "step", "upper end; inf: the records end in a fall that goes on"),
        Column("t_predicted", "float64", "step", "ignition of the mode; of several modes, three quarters of their predicted fall"),
        Column("relative_error", "float64", "1", "t_measured / t_predicted - 1"),
        Column("plateau_start", "float64", "step", "start of the plateau that the drop ends"),
        Column("plateau_end", "float64", "step", "end of the plateau"),
        Column("plateau_loss", "float64", "loss", "loss on the plateau"),
        Column(
            "status",
            "string",
            "",
            "matched; unmatched_plateau: a drop that no mode explains; unmatched_mode: due, and no drop; censored: not to be seen in full "
            "within the records, or too small a fall",
        ),
    ),
    "cells": (
        *_CELL,
        Column("experiment", "string", "", "part of the study that asked for the cell"),
        Column("status", "string", "", "done, diverged, timed_out, killed or missing"),
        Column("remedy", "string", "", "what to do about it"),
        Column("diverged_step", "int64", "step", "first recorded step that is not finite; -1: none"),
        *_STANDING,
        Column("last_step", "float64", "step", "last step with finite numbers"),
        Column("network_loss", "float64", "loss", "training loss of the network at the last step"),
        Column("twin_loss", "float64", "loss", "training loss of the twin at the last step"),
        Column("departure_step", "float64", "step", "first record with divergence above 0.1; inf: never"),
        Column("largest_divergence", "float64", "1", "largest divergence of network and twin"),
        Column("largest_mode_gap", "float64", "1", "largest difference of a mode's strength between network and twin"),
        Column("kernel_change", "float64", "1", "twin_kernel_change at the last step: below 0.1 lazy, above 1 feature learning"),
        Column("kernel_turn", "float64", "1", "twin_kernel_turn at the last step"),
    ),
    "timings": (
        Column("bucket", "string", "", "bucket of the shard", key=True),
        Column("shard", "string", "", "id of the shard", key=True),
        Column("kind", "string", "", "training or theory", key=True),
        Column("stage", "string", "", "what took the time", key=True),
        Column("seconds", "float64", "s", "wall time"),
        Column("cells", "int64", "1", "cells in the shard"),
        Column("bytes", "int64", "byte", "size of the shard"),
        Column("device", "string", "", "where it ran"),
        Column("precision", "string", "", "floating-point format"),
        Column("threads", "float64", "1", "threads of the kernels"),
        Column("lane_width", "float64", "1", "cells in one compiled program"),
    ),
    "extrapolation": (
        *_SETTING,
        Column("bucket", "string", "", "node of trajectories.zarr that holds the cells", key=True),
        Column("source", "string", "", "curve: network or twin", key=True),
        Column("epsilons", "int64", "1", "values of epsilon behind the row"),
        Column("seeds", "int64", "1", "seeds that all of them share"),
        Column("epsilon_high", "float64", "weight^2", "largest epsilon"),
        Column("epsilon_low", "float64", "weight^2", "smallest epsilon"),
        Column("exponent", "float64", "1", "fitted exponent at the smallest epsilon (table `exponents`)"),
        Column("corrected", "float64", "1", "the same with the analytic tail of the missing modes added to the loss"),
        Column("predicted_corrected", "float64", "1", "the same fit, same window, of the expected curve with its tail"),
        Column("extrapolated", "float64", "1", "corrected exponents carried to epsilon = 0, 1/k straight in 1/ln(1/epsilon)"),
        Column("ci_low", "float64", "1", "lower end of its interval"),
        Column("ci_high", "float64", "1", "upper end"),
        Column("shifted", "float64", "1", "corrected exponents less the shift of the theory's own curve, mean over epsilon"),
        Column("shifted_low", "float64", "1", "lower end of its interval"),
        Column("shifted_high", "float64", "1", "upper end"),
        Column("predicted_limit", "float64", "1", "exponent for epsilon -> 0 and infinitely many modes"),
        Column("relative_error", "float64", "1", "extrapolated / predicted_limit - 1"),
        Column("shifted_error", "float64", "1", "shifted / predicted_limit - 1"),
    ),
    "tradeoffs": (
        *_SETTING,
        Column("epsilon", "float64", "weight^2", "degrees * sigma^2", key=True),
        Column(
            "quantity",
            "string",
            "",
            "loss, modes or time of compute (at the best split of C = modes * time), or loss of modes learnt (along one run)",
            key=True,
        ),
        Column("sizes", "int64", "1", "numbers of modes (or samples) in the sweep"),
        Column("seeds", "int64", "1", "seeds that all of them have"),
        Column("exponent", "float64", "1", "slope in the logarithms"),
        Column("ci_low", "float64", "1", "lower end of its interval"),
        Column("ci_high", "float64", "1", "upper end"),
        Column("predicted_finite", "float64", "1", "the same slope of the theory's expected curves"),
        Column("predicted_limit", "float64", "1", "slope for epsilon -> 0 and far from both ends of the sweep"),
        Column("window_start", "float64", "modes * time, or mode", "start of the range"),
        Column("window_end", "float64", "modes * time, or mode", "end of the range"),
        Column("status", "string", "", "ok or not_resolved"),
        Column("reason", "string", "", "why not"),
    ),
    "collapse": (
        *_SETTING,
        Column("source", "string", "", "curve: network or twin", key=True),
        Column("mode", "int64", "1", "number of the mode, 1 the strongest", key=True),
        Column("epsilons", "int64", "1", "values of epsilon behind the row"),
        Column("seeds", "int64", "1", "seeds at the largest of them"),
        Column("width_exponent", "float64", "1", "width of the step in tau = t / ln(1/epsilon) shrinks as ln(1/epsilon)^-width_exponent"),
        Column("width_low", "float64", "1", "lower end of its interval"),
        Column("width_high", "float64", "1", "upper end"),
        Column("tau_c", "float64", "gradient-flow time", "tau of the half-time carried to epsilon = 0"),
        Column("tau_c_low", "float64", "gradient-flow time", "lower end of its interval"),
        Column("tau_c_high", "float64", "gradient-flow time", "upper end"),
        Column("tau_c_predicted", "float64", "gradient-flow time", "1 / r_k"),
        Column("phi", "float64", "1", "power of ln(1/epsilon) at which curves collapse best"),
        Column("phi_low", "float64", "1", "smallest power whose quality is within 1 of the best"),
        Column("phi_high", "float64", "1", "largest such power"),
        Column("quality", "float64", "1", "S of Houdayer and Hartmann at power 1 and the predicted tau_c: up to about 1 for a collapse"),
        Column("unscaled", "float64", "1", "S without rescaling"),
        Column("variance_ratio", "float64", "1", "spread about the master curve at power 1 over the spread without rescaling"),
    ),
    "spectra": (
        Column("architecture", "string", "", "kind of network", key=True),
        Column("task", "string", "", "kind of task", key=True),
        Column("spectrum", "string", "", "names data and architecture; the same in `spectral_laws`", key=True),
        Column("convention", "string", "", "what a mode is: entries, samples, singular or principal", key=True),
        Column("number", "int64", "1", "number of the mode, 1 the fastest", key=True),
        Column("rate", "float64", "1 / gradient-flow time", "growth rate r_k (or zeta_mu) of ln z at the start"),
        Column("share", "float64", "loss", "V_k: loss that goes when the mode is learnt"),
        Column("curvature", "float64", "1 / (time weight^2)", "C_kk: saturation of the mode"),
    ),
    "spectral_laws": (
        Column("architecture", "string", "", "kind of network", key=True),
        Column("task", "string", "", "kind of task", key=True),
        Column("spectrum", "string", "", "names data and architecture; the same in `spectra`", key=True),
        Column("convention", "string", "", "what a mode is: entries, samples, singular or principal", key=True),
        Column("modes", "int64", "1", "modes with a rate and a share"),
        Column("defect", "float64", "1", "how far the modes are from independent ones: off-diagonal share or whiteness defect of K"),
        Column("power_law", "int64", "1", "1: rates and shares have a common power-law range; 0: no"),
        Column("reason", "string", "", "why not"),
        Column("first_mode", "int64", "1", "first mode of the range (of the nearest miss, where there is none)"),
        Column("last_mode", "int64", "1", "last mode of the range"),
        Column("decades", "float64", "1", "log10(last_mode / first_mode)"),
        *(
            Column(f"{name}{end}", "float64", "1", meaning)
            for name, what in (("alpha1", "loss shares, V_k ~ k^-alpha1"), ("alpha2", "rates, r_k ~ k^-alpha2"))
            for end, meaning in (
                ("", f"exponent of the {what}"),
                ("_low", "lower end of its interval"),
                ("_high", "upper end"),
                ("_bend", "change of slope over the range, as a share of the slope"),
            )
        ),
        Column("exponent", "float64", "1", "(alpha1 - 1) / alpha2, the loss exponent for epsilon -> 0 were these modes independent"),
        Column("exponent_low", "float64", "1", "lower end of its interval"),
        Column("exponent_high", "float64", "1", "upper end"),
    ),
    "claims": (
        Column("id", "string", "", "name of the claim", key=True),
        Column("statement", "string", "", "what the paper says"),
        Column("source", "string", "", "theorem, equation or figure"),
        Column("predicted", "float64", "", "value it gives"),
        Column("measured", "float64", "", "value measured here"),
        Column("low", "float64", "", "lower end of the interval"),
        Column("high", "float64", "", "upper end of the interval"),
        Column("verdict", "string", "", "holds: the interval lies in the accepted range; fails: outside; not resolved: across its edge"),
        Column("study", "string", "", "study that measured it", key=True),
        Column("accept_low", "float64", "", "lower end of the range that agrees with the prediction"),
        Column("accept_high", "float64", "", "upper end of that range"),
        Column("note", "string", "", "how it was measured, or why it is not resolved"),
    ),
}


CHECKSUMS = "tables.json"


class TableError(InputError):
    """A table is absent, damaged, or not one of this study's."""


def nearest(name: str, known: Sequence[str]) -> str:
    """`; did you mean ...?` or the list of what there is."""
    near = get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(known)}."


def columns_of(name: str) -> tuple[Column, ...]:
    """The declared columns of a table."""
    if name not in TABLES:
        raise TableError(f"there is no table `{name}`; {nearest(name, list(TABLES))}")
    return TABLES[name]


def table_path(results: Path, name: str) -> Path:
    """The Parquet file of a table."""
    columns_of(name)
    return Path(results) / f"{name}.parquet"


def arrange(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Declared dtypes and order of columns; rows in the order of their keys, so that equal rows give equal bytes."""
    declared = columns_of(name)
    absent = [column.name for column in declared if column.name not in frame.columns and len(frame)]
    if absent:
        raise ValueError(f"table `{name}`: columns {absent} are absent from the rows to be written")
    names = [column.name for column in declared]
    extra = sorted(str(column) for column in frame.columns if column not in names)
    typed = {column.name: _typed(frame.get(column.name, pd.Series([], dtype=object)), column.dtype) for column in declared}
    typed |= {column: _typed(frame[column], _dtype(frame[column])) for column in extra}
    keys = [column.name for column in declared if column.key] + extra
    result = pd.DataFrame(typed)
    return result.take(_order([result[key] for key in keys])).reset_index(drop=True) if len(result) else result


def _order(keys: Sequence[pd.Series[Any]]) -> Any:
    """Places of the rows in the order of their keys, equal ones as they stand, absent values first. Keys that never change have no say."""
    ranks = [_ranks(key) for key in keys]
    said = [rank for rank in ranks if (rank != rank[0]).any()]
    return np.lexsort(said[::-1]) if said else np.arange(len(ranks[0]))


def _ranks(key: pd.Series[Any]) -> Any:
    if key.dtype.kind in "iu":
        return key.to_numpy()
    if key.dtype == "category":
        places = np.argsort(np.argsort(key.cat.categories.to_numpy(object)))
        return np.append(places, -1)[key.cat.codes.to_numpy()]
    return pd.factorize(key, sort=True)[0]  # -1: absent


def _typed(values: pd.Series[Any], dtype: Dtype) -> pd.Series[Any]:
    if dtype == "string":
        return values if values.dtype in ("str", "category") else values.astype(object).where(values.notna(), None).astype("str")
    return values.astype(dtype)


def _dtype(values: pd.Series[Any]) -> Dtype:
    if values.dtype == "category":
        return _dtype(pd.Series(values.cat.categories)) if len(values.cat.categories) else "float64"
    if values.dtype.kind in "fiub":
        return "float64" if values.dtype.kind == "f" else "int64"
    kind = infer_dtype(values, skipna=True)
    if kind == "empty":
        return "float64"
    if kind in ("integer", "boolean"):
        return "float64" if values.isna().any() else "int64"
    text = kind == "string" or any(isinstance(value, str) for value in values.dropna().unique())
    return "string" if text else "float64"


def write_table(results: Path, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Write `<name>.parquet` and `<name>.csv` atomically; returns the rows as written."""
    frame = arrange(name, frame)
    table = pa.Table.from_pandas(frame, schema=_arrow_schema(frame), preserve_index=False)
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="zstd")
    data, path = stream.getvalue(), table_path(results, name)
    checksums = {**_checksums(Path(results)), path.name: hashlib.sha256(data).hexdigest()}
    write_bytes(path, data)
    write_json(Path(results) / CHECKSUMS, dict(sorted(checksums.items())))
    write_with(Path(results) / f"{name}.csv", partial(_write_csv, table))
    return frame


def _write_csv(table: pa.Table, path: Path) -> None:
    """A block of rows at a time. Texts are quoted only in tables where one needs it."""
    for quoting in ("none", "needed"):
        try:
            with path.open("wb") as stream:
                stream.write(",".join(table.column_names).encode() + b"\n")
                csv.write_csv(table, stream, csv.WriteOptions(quoting_style=quoting, include_header=False))
                stream.flush()
                os.fsync(stream.fileno())
            return
        except pa.ArrowInvalid:
            if quoting == "needed":
                raise


def _checksums(results: Path) -> dict[str, str]:
    """SHA-256 of the tables: Parquet keeps none of its footer, where a flipped bit renames a column. Empty where it cannot be read."""
    try:
        found = json.loads((results / CHECKSUMS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_arrow(results: Path, name: str) -> pa.Table:
    """One table of a study. Raises TableError when it is absent or damaged."""
    return _read(results, name, pq.read_table)


def _read(results: Path, name: str, reader: Callable[[io.BytesIO], Any]) -> Any:
    path = table_path(results, name)
    try:
        data = path.read_bytes()
        checksum = _checksums(Path(results)).get(path.name)
        if checksum is not None and hashlib.sha256(data).hexdigest() != checksum:
            raise ValueError(f"its checksum is not the one in {CHECKSUMS}")
        return reader(io.BytesIO(data))
    except (FileNotFoundError, NotADirectoryError):
        raise TableError(f"{path}: absent. The tables are written by the analysis: start the workflow of {results} again.") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(f"{path}: damaged ({str(error).splitlines()[0]}). Delete it and start the workflow again.") from error


def _arrow_schema(frame: pd.DataFrame) -> pa.Schema:
    types = {"f": pa.float64(), "i": pa.int64()}  # texts else, whose few different values come as categories from large tables
    return pa.schema([(str(column), types.get(dtype.kind, pa.string())) for column, dtype in frame.dtypes.items()])


def read_table(results: Path, name: str, columns: Collection[str] | None = None) -> pd.DataFrame:
    """One table of a study as a data frame; with `columns`, only those of them that it has, in its own order."""

    def read(stream: io.BytesIO) -> pd.DataFrame:
        known = pq.read_schema(stream).names
        stream.seek(0)
        return pd.read_parquet(stream, columns=None if columns is None else [name for name in known if name in columns])

    frame: pd.DataFrame = _read(results, name, read)
    return frame


def _markdown_row(column: Column) -> str:
    return f"| `{column.name}` | {column.dtype} | {column.units or '-'} | {column.meaning} |"


def table_dictionary() -> str:
    """All tables in markdown: `python -m nqf_pipeline.store.tables` prints it."""
    parts = []
    for name, columns in TABLES.items():
        rows = "\n".join(_markdown_row(column) for column in columns)
        header = "| column | dtype | units | meaning |\n| --- | --- | --- | --- |"
        parts.append(f"**Table `{name}`** (`{name}.csv`, `{name}.parquet`)\n\n{header}\n{rows}")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(table_dictionary(), end="")
