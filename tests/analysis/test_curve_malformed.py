"""`nqf fit` on malformed files: each ends in a message that names the file, and exit code 2; none in a traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nqf_pipeline.cli import main

ROWS = "\n".join(f"{i},{1 / i:.6f}" for i in range(1, 40))
TEXTS = {
    "empty.csv": "",
    "blank.csv": "\n\n   \n",
    "comments.csv": "# step,loss\n# 1,2\n",
    "header_only.csv": "step,loss\n",
    "one_row.csv": "step,loss\n1,0.5\n",
    "one_cell.csv": "7\n",
    "words.csv": "step,loss\n" + "\n".join(f"{i},high" for i in range(9)),
    "prose.csv": "The loss fell\nfrom one to\nnearly zero\n",
    "no_loss.csv": "step,temperature,speed\n" + "\n".join(f"{i},1,2" for i in range(9)),
    "ragged.csv": f"step,loss\n{ROWS}\n40\n",
    "too_wide.csv": f"step,loss\n{ROWS}\n40,0.1,0.2\n",
    "twice.csv": f"loss,loss\n{ROWS}\n",
    "all_nan.csv": "step,loss\n" + "\n".join(f"{i},nan" for i in range(9)),
    "all_empty.csv": "step,loss\n" + "\n".join(f"{i}," for i in range(9)),
    "binary.csv": "\x00\x01\x02\x03\x04",
    "cut.json": '{"log_history": [{"step": 1, "loss": 2.0}, {"step": 2, "lo',
    "empty.json": "",
    "nothing.json": "{}",
    "list.json": "[]",
    "scalar.json": "3.5",
    "null.json": "null",
    "words.json": '{"step": "a", "loss": "b"}',
    "lengths.json": '{"step": [1, 2, 3], "loss": [1, 2]}',
    "nested.json": '{"a": {"b": {"c": [1, 2]}}}',
    "history.json": '{"log_history": []}',
    "cut.jsonl": '{"step": 1, "loss": 2.0}\n{"step": 2, "loss"\n',
    "lists.jsonl": "[1, 2]\n[3, 4]\n",
    "no_loss.jsonl": '{"step": 1}\n{"step": 2}\n',
    "broken.npy": "not an array",
    "broken.npz": "not an archive",
    "unknown.xlsx": "PK",
}


@pytest.mark.parametrize("name", TEXTS)
def test_malformed_files_end_in_a_message(name: str, tmp_path: Path, monkeypatch, capsys) -> None:
    path = tmp_path / name
    path.write_text(TEXTS[name])
    assert_refused(path, monkeypatch, capsys)


ARRAYS = {
    "three_axes.npy": np.ones((3, 4, 5)),
    "no_records.npy": np.ones((0,)),
    "scalar.npy": np.array(1.0),
    "complex.npy": np.ones(20) * 1j,
    "dates.npy": np.array(["2026-01-01"], "datetime64[D]"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_are_no_curve_end_in_a_message(name: str, tmp_path: Path, monkeypatch, capsys) -> None:
    np.save(tmp_path / name, ARRAYS[name])
    assert_refused(tmp_path / name, monkeypatch, capsys)


def test_files_that_cannot_be_read_end_in_a_message(tmp_path: Path, monkeypatch, capsys) -> None:
    assert_refused(tmp_path / "absent.csv", monkeypatch, capsys)
    (tmp_path / "folder.zarr").mkdir()
    assert_refused(tmp_path / "folder.zarr", monkeypatch, capsys)
    (tmp_path / "latin.csv").write_bytes(b"step,loss\n1,\xff\xfe\n2,\xe9\n")
    assert_refused(tmp_path / "latin.csv", monkeypatch, capsys)


def assert_refused(path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["nqf", "fit", str(path), "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr()
    assert stop.value.code == 2, said
    assert path.name in said.err
    assert len(said.err.strip()) > len(str(path)) + 20
    assert said.out == ""
