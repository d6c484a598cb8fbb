"""The command line on a finished study: words for people, one JSON document for programs, exit codes for both."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nqf_pipeline.cli import bar, main, show_json
from nqf_pipeline.store.open import open_study
from tests.workflow.runs import CELLS, PATIENCE, SHARDS, Workspace

Call = Callable[..., tuple[int, str, str]]
RESULTS = "results/tiny"


@pytest.fixture
def nqf(finished: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """A command in this process, started where the finished study is: exit code and both streams."""
    monkeypatch.chdir(finished.folder)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["nqf", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


@pytest.fixture
def document(nqf: Call) -> Callable[..., Any]:
    """The one JSON document that a command prints."""

    def read(*arguments: str) -> Any:
        code, out, err = nqf(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    return read


def test_plan(nqf: Call, document: Callable[..., Any]) -> None:
    found = document("plan", "config/tiny.yaml")
    assert set(found) >= {"cells", "buckets", "shards", "seconds", "bytes", "files", "to_run", "already_done"}
    assert (found["cells"], found["buckets"], found["shards"], found["to_run"], found["already_done"]) == (CELLS, SHARDS, SHARDS, 0, SHARDS)
    code, out, err = nqf("plan", "config/tiny.yaml")
    assert code == 0
    assert re.search(rf"^cells +{CELLS} *$", out, re.MULTILINE)
    assert re.fullmatch(r"warning: wild: .*above the bound.*\n", err)
    assert document("plan", "config/tiny.yaml", "--results", "elsewhere")["to_run"] == SHARDS


def test_status(nqf: Call, document: Callable[..., Any]) -> None:
    found = document("status", RESULTS)
    assert found["counts"] == {"missing": 0, "done": CELLS - 1, "diverged": 1, "timed_out": 0, "killed": 0, "not_predicted": 0}
    assert found["cells"] == sum(found["counts"].values())
    assert found["running"] == []
    assert found["merged"] is True
    assert found["seconds"]["run"] > 0
    code, out, _ = nqf("status", RESULTS)
    assert code == 0
    assert re.search(rf"^done +{CELLS - 1} *$", out, re.MULTILINE)


@pytest.mark.parametrize("place", [".", "..", "shards/.."])
def test_folders_without_a_name_of_their_own(
    finished: Workspace, document: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(finished.results if place != ".." else finished.results / "shards")
    assert document("status", place)["cells"] == CELLS


def test_query(nqf: Call, document: Callable[..., Any], finished: Workspace) -> None:
    cells = open_study(finished.results).cells
    rows = document("query", RESULTS, "cells", "--where", "status = 'diverged'", "--columns", "cell, experiment,diverged_step")
    (wild,) = cells[cells["status"] == "diverged"].to_dict(orient="records")
    assert rows == [{name: wild[name] for name in ("cell", "experiment", "diverged_step")}]
    assert list(rows[0]) == ["cell", "experiment", "diverged_step"]
    code, out, err = nqf("query", RESULTS, "cells", "--columns", "cell,sigma", "--format", "csv")
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()[1:]) == sorted(f"{row.cell},{row.sigma}" for row in cells.itertuples())
    assert document("query", RESULTS, "cells", "--where", "sigma > 10") == []
    code, out, _ = nqf("query", RESULTS, "plateaus", "--columns", "cell,mode,tier")
    assert code == 0
    assert len(out.splitlines()) == 1 + len(open_study(finished.results).plateaus)


def test_absent_numbers_are_null(document: Callable[..., Any]) -> None:
    rows = document("query", RESULTS, "cells", "--columns", "experiment,alpha1")
    assert {(row["experiment"], row["alpha1"]) for row in rows} >= {("law", 2.0), ("tracks", None)}


def test_json_of_what_json_cannot_say(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"a": [float("nan"), float("inf"), 1.5], 2: ("x", None)})
    assert json.loads(capsys.readouterr().out) == {"a": [None, None, 1.5], "2": ["x", None]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("query", RESULTS, "cell"), "there is no table `cell`; did you mean `cells`"),
        (("query", RESULTS, "cells", "--columns", "sigm"), "table `cells` has no column `sigm`; did you mean `sigma`"),
        (("query", RESULTS, "cells", "--where", "sigm < 1"), "there is no column `sigm`; did you mean `sigma`"),
        (("query", RESULTS, "cells", "--where", "1=1); drop table cells; --"), "the condition does not work|one expression"),
        (("query", RESULTS, "cells", "--format", "xml"), "--format xml: allowed are table, csv, json"),
        (("query", "results/none", "cells"), "results/none"),
        (("status", "results/none"), "results/none: no study was run here"),
        (("status", "config/tiny.yaml"), "config/tiny.yaml: no study was run here"),
        (("merge", "results/none"), "results/none: no study was run here"),
        (("theory", "results/none"), "results/none: no study was run here"),
        (("analyse", "results/none"), "results/none: no study was run here"),
        (("figures", "results/none"), "results/none: no study was run here"),
        (("report", "results/none"), "results/none: no study was run here"),
        (("train", RESULTS, "0123456789abcdef"), "no shard 0123456789abcdef"),
        (("train", "results/none", "0123456789abcdef"), "no shard 0123456789abcdef"),
        (("rerun", RESULTS, "zz"), "no cell begins with 'zz'"),
        (("rerun", RESULTS, ""), f"{CELLS} cells begin with ''"),
        (("rerun", "results/none", "aa"), "no cell begins with 'aa'"),
        (("plan", "config/none.yaml"), "config/none.yaml: cannot read the config file"),
        (("plam",), "No such command 'plam'"),
        (("status",), "Missing argument"),
        (("status", RESULTS, "--jsn"), "No such option"),
    ],
)  # fmt: skip
def test_bad_input_ends_with_code_two(nqf: Call, finished: Workspace, arguments: tuple[str, ...], words: str) -> None:
    before = sorted(path.name for path in finished.folder.rglob("*"))
    code, out, err = nqf(*arguments)
    assert code == 2
    assert out == ""
    assert re.search(words, err), err
    assert "Traceback" not in err
    assert sorted(path.name for path in finished.folder.rglob("*")) == before


def test_without_a_command_it_says_what_there_is(nqf: Call) -> None:
    _, out, err = nqf()
    for name in ("plan", "train", "theory", "merge", "analyse", "figures", "report", "status", "query", "rerun"):
        assert re.search(rf"\b{name}\b", out + err)


def test_rerun_of_one_cell_agrees_with_the_stored_run(finished: Workspace) -> None:
    """Alone, at lane width 1, XLA orders sums differently: float32 agrees to 1e-5, float64 to 1e-12."""
    before = finished.files("shards/*", "theory/*", "*.json*", "trajectories.zarr/**/*")
    cells = open_study(finished.results).cells.set_index("experiment")
    for experiment, tolerance in (("law", 1e-12), ("tracks", 1e-5)):
        row = cells.loc[[experiment]].iloc[0]
        done = finished.nqf("rerun", RESULTS, row["cell"][:12], "--json")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        found = json.loads(done.stdout)
        assert found["cell"] == row["cell"]
        assert found["status"] == "done"
        assert found["steps"] == row["steps"]
        assert found["network_loss"] == pytest.approx(row["network_loss"], rel=tolerance)
        gaps = {name: value for name, value in found.items() if name.startswith("largest_difference_")}
        assert len(gaps) == 4
        assert max(gaps.values()) <= tolerance, gaps
    assert finished.files("shards/*", "theory/*", "*.json*", "trajectories.zarr/**/*") == before


def test_rerun_of_the_diverging_cell_diverges_at_the_same_step(finished: Workspace) -> None:
    wild = open_study(finished.results).cells.set_index("experiment").loc["wild"]
    done = finished.nqf("rerun", RESULTS, wild["cell"])
    assert done.returncode == 0, done.stderr
    assert re.search(r"^status +diverged *$", done.stdout, re.MULTILINE)
    assert re.search(rf"^diverged step +{wild['diverged_step']} *$", done.stdout, re.MULTILINE)


@pytest.fixture
def unfinished(finished: Workspace, tmp_path: Path) -> Iterator[tuple[Workspace, str]]:
    """A study that lacks one shard."""
    workspace = finished.copy(tmp_path)
    shard = workspace.shards[0]
    for kind in ("zarr.zip", "json"):
        (workspace.results / "shards" / f"{shard}.{kind}").unlink()
    yield workspace, shard
    shutil.rmtree(workspace.folder)


def test_partial_results(unfinished: tuple[Workspace, str], finished: Workspace) -> None:
    workspace, shard = unfinished
    done = workspace.nqf("merge", RESULTS)
    assert done.returncode == 2
    assert re.search(r"cells have no finished shard: .*start the workflow again.*allow partial results", done.stderr)
    assert workspace.nqf("merge", RESULTS, "--allow-partial").returncode == 0
    assert workspace.nqf("analyse", RESULTS).returncode == 0
    counts = json.loads(workspace.nqf("status", RESULTS, "--json").stdout)["counts"]
    assert counts["missing"] > 0
    rows = json.loads(workspace.nqf("query", RESULTS, "cells", "--where", "status = 'missing'", "--json").stdout)
    assert len(rows) == counts["missing"]
    # Trained by hand, the shard is what it was; training it once more does nothing.
    path = workspace.results / "shards" / f"{shard}.zarr.zip"
    done = workspace.nqf("train", RESULTS, shard)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "silent where nobody watches"
    assert path.read_bytes() == (finished.results / "shards" / path.name).read_bytes()
    before = path.stat().st_mtime_ns
    assert workspace.nqf("train", RESULTS, shard).returncode == 0
    assert path.stat().st_mtime_ns == before


def test_training_shows_its_progress_on_a_terminal(unfinished: tuple[Workspace, str]) -> None:
    workspace, shard = unfinished
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        ["nqf", "train", RESULTS, shard],
        cwd=workspace.folder,
        env={**workspace.environment, "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the terminal is closed when its last process ends
            break
        if not part:
            break
        shown += part
    os.close(master)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, shown
    assert out == "", "progress goes to standard error"
    cells = len(json.loads((workspace.results / "manifest.jsonl").read_text().splitlines()[0])["cells"])
    text = shown.decode()
    assert re.search(rf"cells.*0/{cells}", text)
    assert re.search(rf"{cells}/{cells}", text)


def test_a_bar_is_silent_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("cells", 3) as progress:
        progress(2)
    assert capsys.readouterr() == ("", "")


def test_tables_are_the_same_in_both_formats(finished: Workspace) -> None:
    for name in ("cells", "exponents", "plateaus", "timings"):
        table = pd.read_parquet(finished.results / f"{name}.parquet")
        other = pd.read_csv(finished.results / f"{name}.csv")
        assert list(table.columns) == list(other.columns)
        assert len(table) == len(other)
        numbers = table.select_dtypes("number").columns
        pd.testing.assert_frame_equal(table[numbers], other[numbers].astype(table[numbers].dtypes), check_exact=False, rtol=1e-14)
