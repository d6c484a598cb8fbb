"""SQL on the tables of a study, read-only (DuckDB on the Parquet files)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa

from nqf_pipeline.errors import InputError
from nqf_pipeline.store.tables import TABLES, nearest, read_arrow, table_path

_CONDITION_HELP = "A condition is SQL over columns, for example: architecture = 'mlp' and sigma < 0.01"


class QueryError(InputError):
    """The query is not one about this study's tables."""


def query(results: str | Path, table: str, where: str | None = None, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Rows of a table: `select columns from table where condition`.

    `where` is a SQL condition; it may use the other tables in subqueries. The connection holds nothing but these tables and can
    neither read nor write files.
    """
    results = Path(results)
    if table not in TABLES:
        raise QueryError(f"there is no table `{table}`; {nearest(table, list(TABLES))}")
    loaded = _load(results, table, where or "")
    known = loaded[table].column_names
    for column in columns or ():
        if column not in known:
            raise QueryError(f"table `{table}` has no column `{column}`; {nearest(column, known)}")
    chosen = ", ".join(_quote(column) for column in columns) if columns else "*"
    condition = f" WHERE ({where}\n)" if where and where.strip() else ""  # the new line ends a trailing SQL comment
    with duckdb.connect(":memory:") as connection:
        for name, rows in loaded.items():
            connection.register(name, rows)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET lock_configuration = true")
        return _run(connection, f"SELECT {chosen} FROM {_quote(table)}{condition}", known)


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _load(results: Path, table: str, where: str) -> dict[str, pa.Table]:
    """The table itself, and any other that the condition speaks of."""
    names = {table} | {name for name in TABLES if re.search(rf"\b{name}\b", where) and table_path(results, name).is_file()}
    return {name: read_arrow(results, name) for name in sorted(names)}


def _run(connection: duckdb.DuckDBPyConnection, sql: str, known: Sequence[str]) -> pd.DataFrame:
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryError(f"a condition must be one expression, not several statements. {_CONDITION_HELP}")
        return connection.execute(statements[0]).df()
    except duckdb.Error as error:
        raise QueryError(f"the condition does not work: {_reason(error, known)}. {_CONDITION_HELP}") from None


def _reason(error: duckdb.Error, known: Sequence[str]) -> str:
    text = " ".join(str(error).split("LINE ")[0].split())
    found = re.search(r'column "([^"]+)" not found', text)
    if found:
        return f"there is no column `{found[1]}`; {nearest(found[1], known)}".rstrip(".?") + "?" * ("did you" in nearest(found[1], known))
    return text.rstrip(".")
