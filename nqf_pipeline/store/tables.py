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
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.api.types import infer_dtype
from pyarrow import csv

from nqf_pipeline.errors import InputError
from nqf_pipeline.store.atomic import write_bytes, write_json, write_with
from nqf_pipeline.store.cell_tables import OF_CELLS
from nqf_pipeline.store.columns import Column, Dtype
from nqf_pipeline.store.curve_tables import OF_CURVES
from nqf_pipeline.store.study_tables import OF_STUDIES

TABLES: dict[str, tuple[Column, ...]] = {**OF_CURVES, **OF_CELLS, **OF_STUDIES}
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
