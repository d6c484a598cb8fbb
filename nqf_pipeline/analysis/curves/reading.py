"""A file to curves. The format follows from the content where it can, the ending where it must."""

from __future__ import annotations

from pathlib import Path

from nqf_pipeline.analysis.curves.arrays import numpy_table, zarr_table
from nqf_pipeline.analysis.curves.columns import Series, series
from nqf_pipeline.analysis.curves.logs import json_table
from nqf_pipeline.analysis.curves.table import CurveError, Table
from nqf_pipeline.analysis.curves.text import text_table

FORMATS = "CSV or other delimited text, JSON, JSON lines, .npy, .npz, zarr"


def read(path: Path, time: str | None = None, loss: str | None = None) -> list[Series]:
    """The curves of a file, the main one first; one for each loss and run, or only those of the column named `loss`."""
    return series(path, table(path), time, loss)


def table(path: Path) -> Table:
    """The columns of a file."""
    if path.is_dir():
        if not any((path / name).exists() for name in ("zarr.json", ".zgroup", ".zarray")):
            raise CurveError(f"{path}: is a folder, but no zarr store; give a file with a curve ({FORMATS})")
        return zarr_table(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CurveError(f"{path}: does not exist (looked for {path.absolute()}); give a file with a curve ({FORMATS})") from None
    except OSError as error:
        raise CurveError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    if not content.strip():
        raise CurveError(f"{path}: is empty, so there is no curve; give a file with a column of losses ({FORMATS})")
    if content.startswith(b"\x93NUMPY") or path.suffix in (".npy", ".npz"):
        return numpy_table(path)
    if content.startswith(b"PK"):
        return zarr_table(path) if ".zarr" in path.suffixes else numpy_table(path)
    text = _decoded(path, content)
    return json_table(path, text) if path.suffix in (".json", ".jsonl", ".ndjson") or text.lstrip()[:1] in "{[" else text_table(path, text)


def _decoded(path: Path, content: bytes) -> str:
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise CurveError(f"{path}: is neither text nor arrays (byte {error.start} is no UTF-8); readable are {FORMATS}") from None
    if "\x00" in text:
        raise CurveError(f"{path}: is a binary file of an unknown kind; readable are {FORMATS}")
    return text
