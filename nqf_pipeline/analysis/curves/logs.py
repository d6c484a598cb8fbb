"""JSON: lines of records, a list of records, an object of columns, or a trainer's state with its log inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nqf_pipeline.analysis.curves.table import CurveError, Table, from_rows

# A Hugging Face trainer's `loss` in `log_history` is the mean over the steps since its last record (Trainer._maybe_log_save_evaluate).
_WAYS = "give one record a line, a list of records, an object of equally long lists, or a trainer's state with a `log_history`"


def json_table(path: Path, content: str) -> Table:
    """The columns of a JSON document or of JSON lines."""
    try:
        document = json.loads(content)
    except json.JSONDecodeError as error:
        return _lines(path, content, error)
    return _table(path, document)


def _lines(path: Path, content: str, whole: json.JSONDecodeError) -> Table:
    records: list[dict[str, Any]] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            if number == 1 or not records:
                raise CurveError(f"{path}, line {whole.lineno}: is not valid JSON ({whole.msg}); {_WAYS}") from error
            raise CurveError(f"{path}, line {number}: is not valid JSON ({error.msg}); complete or remove that line") from error
        if not isinstance(record, dict):
            raise CurveError(f'{path}, line {number}: is not a record such as {{"step": 1, "loss": 0.5}}; {_WAYS}')
        records.append(_flat(record))
    return from_rows(records)


def _table(path: Path, document: Any) -> Table:
    if isinstance(document, dict):
        return _object(path, document)
    if isinstance(document, list) and document:
        if all(isinstance(record, dict) for record in document):
            return from_rows(_flat(record) for record in document)
        if all(isinstance(record, (int, float)) or record is None for record in document):
            return from_rows({"loss": record} for record in document)
        if all(isinstance(record, list) and len(record) == len(document[0]) for record in document):
            return from_rows({f"column {i + 1}": value for i, value in enumerate(record)} for record in document)
    raise CurveError(f"{path}: holds no records that can be read as columns; {_WAYS}")


def _object(path: Path, document: dict[str, Any]) -> Table:
    """Columns, or the list of records found under some key (`log_history` of a trainer first)."""
    for name in sorted(document, key=lambda key: key != "log_history"):
        value = document[name]
        if isinstance(value, list) and value and all(isinstance(record, dict) for record in value):
            table = from_rows(_flat(record) for record in value)
            table.averaged = frozenset(["loss"] if name == "log_history" else [])
            return table
    lists = {name: value for name, value in document.items() if isinstance(value, list) and value}
    if not lists:
        if any(isinstance(value, (int, float)) for value in document.values()):
            return from_rows([_flat(document)])  # a single line of JSON lines
        raise CurveError(f"{path}: has no list of records or numbers among its keys ({', '.join(list(document)[:8]) or 'none'}); {_WAYS}")
    lengths = {len(value) for value in lists.values()}
    if len(lengths) > 1:
        found = ", ".join(f"{name}: {len(value)}" for name, value in list(lists.items())[:6])
        raise CurveError(f"{path}: its lists have different lengths ({found}), so it is unclear which loss belongs to which time; {_WAYS}")
    table = Table()
    for name, value in lists.items():
        table.add(name, value)
    return table


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested records by dotted names; lists are left out."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            flat[prefix + key] = value
    return flat
