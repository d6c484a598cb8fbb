"""Tables are written once for all formats, and queries can only read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nqf_pipeline.store.query import QueryError, query
from nqf_pipeline.store.tables import TABLES, TableError, read_table, write_table


def frame() -> pd.DataFrame:
    rows = []
    for seed in (2, 0, 1):
        row = {column.name: {"string": "x", "float64": 1.5, "int64": seed}[column.dtype] for column in TABLES["plateaus"]}
        rows.append({**row, "seed": seed, "t_predicted": [np.inf, np.nan, 3.0][seed], "width": 64, "alpha1": [None, 1.5, 2.0][seed]})
    return pd.DataFrame(rows)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_table(tmp_path, "plateaus", frame())
    return tmp_path


def test_both_formats_hold_the_same_rows_in_key_order(results: Path) -> None:
    parquet, csv = read_table(results, "plateaus"), pd.read_csv(results / "plateaus.csv")
    pd.testing.assert_frame_equal(parquet, csv, check_dtype=False)
    assert parquet["seed"].tolist() == [0, 1, 2]
    assert list(parquet.columns[-2:]) == ["alpha1", "width"]
    assert parquet["width"].dtype == np.int64
    assert np.isinf(parquet["t_predicted"][0])


def test_same_rows_same_bytes(tmp_path: Path) -> None:
    shuffled = frame().sample(frac=1, random_state=3)
    for folder, rows in (("a", frame()), ("b", shuffled)):
        write_table(tmp_path / folder, "plateaus", rows)
    for name in ("plateaus.csv", "plateaus.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_an_empty_table_keeps_its_columns(tmp_path: Path) -> None:
    write_table(tmp_path, "claims", pd.DataFrame())
    assert list(read_table(tmp_path, "claims").columns) == [column.name for column in TABLES["claims"]]


def test_absent_columns_are_a_mistake_of_the_program(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tier"):
        write_table(tmp_path, "plateaus", frame().drop(columns="tier"))


def test_absent_and_damaged_tables(results: Path) -> None:
    with pytest.raises(TableError, match="written by the analysis"):
        read_table(results, "exponents")
    (results / "plateaus.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(TableError, match="damaged"):
        read_table(results, "plateaus")
    with pytest.raises(TableError, match="damaged"):
        query(results, "plateaus")


def test_query_selects(results: Path) -> None:
    assert query(results, "plateaus", "seed > 0 -- a comment", ["seed", "width"]).to_dict("list") == {"seed": [1, 2], "width": [64, 64]}
    assert len(query(results, "plateaus")) == 3
    assert query(results, "plateaus", "seed = (select max(seed) from plateaus)")["seed"].tolist() == [2]


@pytest.mark.parametrize(
    ("table", "where", "columns", "message"),
    [
        ("plateau", None, None, "did you mean `plateaus`"),
        ("plateaus", None, ["sead"], "did you mean `seed`"),
        ("plateaus", "sead = 1", None, "no column `sead`; did you mean `seed`"),
        ("plateaus", "seed =", None, "the condition does not work"),
        ("plateaus", "true); drop table plateaus; select (1", None, "not several statements"),
        ("plateaus", "seed in (select 1 from read_csv('/etc/passwd'))", None, "does not work.*disabled"),
        ("plateaus", "seed in (select 1 from '/etc/passwd')", None, "does not work"),
        ("plateaus", "true) union select * from duckdb_secrets() where (true", None, "does not work"),
    ],
)
def test_bad_queries_say_what_to_do(results: Path, table: str, where: str | None, columns: list[str] | None, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        query(results, table, where, columns)
