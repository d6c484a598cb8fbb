"""Reading a user's arrays. Every refusal names the file, the place in it, why it matters and what to do."""

from __future__ import annotations

import csv
import difflib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.tasks.base import TaskError

Array = Any
Table = Float[np.ndarray, "samples columns"]


def existing(path: str) -> Path:
    """The file as a path, or an error that says where it was looked for."""
    found = Path(path).expanduser()
    if not found.is_file():
        reason = "is a folder, not a file" if found.is_dir() else "does not exist"
        raise TaskError(
            f"data file {path} {reason} (looked for {found.absolute()}); give an absolute path, or one relative to where the command starts"
        )
    return found


def read_npz(path: Path) -> dict[str, Float[np.ndarray, "samples *shape"]]:
    """The arrays x, y and, both or neither, x_test and y_test, as float64."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise TaskError(f"{path}: is a single array, but x and y are needed; save both with numpy.savez(path, x=..., y=...)")
        with archive:
            _check_keys(path, archive.files)
            return {key: _numbers(path, key, archive[key]) for key in ("x", "y", "x_test", "y_test") if key in archive.files}
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise TaskError(f"{path}: is not a readable .npz archive ({error}); write it with numpy.savez(path, x=..., y=...)") from error
    except ValueError as error:
        if isinstance(error, TaskError):
            raise
        raise TaskError(f"{path}: holds something else than arrays of numbers ({error}); save numeric arrays with numpy.savez") from error


def _check_keys(path: Path, keys: Sequence[str]) -> None:
    for key in ("x", "y"):
        if key not in keys:
            raise TaskError(
                f"{path}: has no array `{key}` (it has {', '.join(keys) or 'none'}); save inputs as x and targets as y, samples first"
            )
    if ("x_test" in keys) != ("y_test" in keys):
        there, missing = ("x_test", "y_test") if "x_test" in keys else ("y_test", "x_test")
        raise TaskError(f"{path}: has `{there}` but no `{missing}`; give both, or neither to hold out a share of the training data")


def _numbers(path: Path, key: str, values: Array) -> Array:
    """Finite float64 values with at least one sample."""
    if values.dtype.kind not in "buif":
        raise TaskError(f"{path}, array `{key}`: has type {values.dtype}, but real numbers are needed; convert it before saving")
    if values.ndim == 0 or values.size == 0:
        raise TaskError(f"{path}, array `{key}`: shape {values.shape} holds no sample; samples are the first axis")
    values = values.astype(np.float64)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        place = tuple(int(i) for i in bad[0])
        raise TaskError(
            f"{path}, array `{key}`: {values[place]} at index {list(place)} (sample {place[0]}), the first of {len(bad)} values that are "
            "not finite; one of them makes every loss NaN, so remove or fill those samples"
        )
    return values


def read_csv(path: Path, target: Sequence[str], features: Sequence[str]) -> tuple[Table, Table]:
    """(x, y) from a table with a header; features default to all columns that are not targets."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [(reader.line_num, row) for reader in [csv.reader(file)] for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise TaskError(f"{path}: is not a readable UTF-8 CSV file ({error}); save it as comma-separated UTF-8 text") from error
    header = _header(path, rows, target)
    features = list(features) or [name for name in header if name not in target]
    for name in (*target, *features):
        if name not in header:
            raise TaskError(f"{path}, header: has no column `{name}` (columns: {', '.join(header)}){_nearest(name, header)}")
    if not features:
        raise TaskError(f"{path}, header: every column is a target, so no input is left; name fewer columns in `target`")
    if not rows[1:]:
        raise TaskError(f"{path}: has a header but no row of data; one row is one sample")
    table = _cells(path, header, rows[1:])
    return table[:, [header.index(f) for f in features]], table[:, [header.index(t) for t in target]]


def _header(path: Path, rows: Sequence[tuple[int, list[str]]], target: Sequence[str]) -> list[str]:
    if not rows:
        raise TaskError(f"{path}: is empty; the first row names the columns, each further row is one sample")
    header = [name.strip() for name in rows[0][1]]
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise TaskError(
            f"{path}, header: has one column, `{header[0][:60]}`; save the file with commas between columns, not semicolons or tabs"
        )
    if all(_is_number(name) for name in header):
        raise TaskError(
            f"{path}, row {rows[0][0]}: holds numbers only, but must name the columns (target: {', '.join(target)}); add a header row"
        )
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise TaskError(f"{path}, header: column(s) {', '.join(twice)} appear twice, so it is unclear which is meant; rename them")
    return header


def _cells(path: Path, header: Sequence[str], rows: Sequence[tuple[int, list[str]]]) -> Table:
    table = np.empty((len(rows), len(header)))
    for index, (line, row) in enumerate(rows):
        if len(row) != len(header):
            raise TaskError(f"{path}, row {line}: has {len(row)} cells but the header {len(header)} columns; complete or remove that row")
        for column, text in enumerate(row):
            table[index, column] = _cell(path, line, header[column], text)
    return table


def _cell(path: Path, line: int, column: str, text: str) -> float:
    if not _is_number(text):
        what = f"`{text.strip()[:40]}` is not a number" if text.strip() else "is empty"
        raise TaskError(f"{path}, row {line}, column `{column}`: {what}; every sample needs a number there: encode, fill or remove it")
    value = float(text)
    if not np.isfinite(value):
        raise TaskError(
            f"{path}, row {line}, column `{column}`: {value} is not finite; it would make every loss NaN, so remove or fill that sample"
        )
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _nearest(name: str, known: Sequence[str]) -> str:
    folded = {word.casefold(): word for word in known}
    match = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.5)
    return f"; did you mean `{folded[match[0]]}`?" if match else ""
