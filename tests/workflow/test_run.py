"""The workflow end to end: what one run leaves behind, and what a second one does."""

from __future__ import annotations

import json
import re
import resource
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from nqf_pipeline.store.open import open_study
from nqf_pipeline.store.schema import Status
from nqf_pipeline.study.plan import plan_file
from tests.workflow.runs import CELLS, NOTHING, SHARDS, SNAKEFILE, Workspace, jobs, new, said


def test_a_run_makes_everything(finished: Workspace) -> None:
    page = finished.results / "report.html"
    assert page.stat().st_size > 10_000
    for name in ("exponents", "plateaus", "cells", "timings"):
        assert (finished.results / f"{name}.csv").is_file()
        assert (finished.results / f"{name}.parquet").is_file()
    drawn = json.loads((finished.results / "figures" / "figures.json").read_text())
    assert {"learning", "modes", "ignition"} <= {name for name, entry in drawn.items() if "omitted" not in entry}
    for name, entry in drawn.items():
        assert (finished.results / "figures" / f"{name}.png").is_file() == ("omitted" not in entry)
    assert len(finished.shards) == SHARDS


def test_every_job_has_a_log_and_a_benchmark(finished: Workspace) -> None:
    jobs_done = {*(f"train/{shard}" for shard in finished.shards), "theory", "merge", "analyse", "figures", "report"}
    assert {path[len("logs/") : -len(".log")] for path in finished.files("logs/**/*")} == jobs_done
    measured = finished.contents("benchmarks/**/*")
    assert {path[len("benchmarks/") : -len(".tsv")] for path in measured} == jobs_done
    for data in measured.values():
        header, row = data.decode().splitlines()
        assert float(row.split("\t")[header.split("\t").index("s")]) > 0


def test_the_page_loads_nothing_from_elsewhere(finished: Workspace) -> None:
    page = (finished.results / "report.html").read_text()
    assert not re.findall(r"(?:src|href)=[\"'](?!data:|#)[^\"']*[\"']|url\((?!['\"]?(?:data:|#))", page)


def test_open_study_opens_it(finished: Workspace) -> None:
    study = open_study(finished.results, verify=True)
    assert len(study.cells) == CELLS
    assert set(study.cells["experiment"]) == {"tracks", "law", "table", "wild"}
    for node in study.trajectories.children.values():
        done = node.to_dataset().compute().isel(cell=node["status"].to_numpy() == Status.done)
        assert np.isfinite(done["network_loss"]).all()
        assert (done["step_number"].isel(step=0) == 0).all()
        # Both start from the same weights: they differ by the network's own higher orders only.
        first = done.isel(step=0)
        np.testing.assert_allclose(first["network_loss"], first["twin_loss"], rtol=0.05)
        assert (done["network_loss"].isel(step=-1) < done["network_loss"].isel(step=0)).all()


def test_the_diverging_cell_is_a_row_with_its_step(finished: Workspace) -> None:
    cells = open_study(finished.results).cells.set_index("experiment")
    wild = cells.loc["wild"]
    assert wild["status"] == "diverged"
    assert 0 < wild["diverged_step"] <= 300
    assert (cells.drop("wild")["status"] == "done").all()
    assert (cells.drop("wild")["diverged_step"] == -1).all()


def test_nothing_is_left_to_plan(finished: Workspace) -> None:
    found = json.loads(finished.nqf("plan", "config/tiny.yaml", "--json").stdout)
    assert (found["cells"], found["shards"], found["to_run"], found["already_done"], found["new"]) == (CELLS, SHARDS, 0, SHARDS, 0)
    written = sum(path.is_file() for path in finished.results.rglob("*"))
    assert 0.5 * found["files"] < written <= found["files"], "the plan promises at most so many files"


def test_a_second_run_starts_no_job_and_touches_nothing(finished: Workspace) -> None:
    before = finished.files()
    text = finished.finish()
    assert NOTHING in text
    assert "warning: wild" not in text
    assert finished.files() == before


def test_warnings_of_the_plan_reach_whoever_runs_it_once(finished: Workspace) -> None:
    text = (finished.folder / "first_run.txt").read_text()
    (warning,) = plan_file(finished.config, finished.results.parent).warnings
    assert "above the bound" in warning
    # The path of the data file is not in it, so the words are the same wherever the plan was made.
    assert text.count(f"warning: {warning}") == 1


def test_a_dry_run_writes_nothing_and_never_imports_jax(tmp_path: Path) -> None:
    fresh = new(tmp_path)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = fresh.snakemake_command("--dry-run")
    done = fresh.run(sys.executable, "-X", "importtime", "-m", *command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-3000:]
    assert jobs(done.stdout + "\n" + re.sub(r"(?m)^import time:.*\n", "", done.stderr)) == {
        "train": SHARDS,
        "theory": 1,
        "merge": 1,
        "analyse": 1,
        "figures": 1,
        "report": 1,
    }
    assert not fresh.results.parent.exists()
    assert "nqf_pipeline.study.plan" in done.stderr
    assert "jaxlib" not in done.stderr
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < 10, "two seconds of processor time are usual"


def test_a_dry_run_over_finished_work_writes_nothing(finished: Workspace, tmp_path: Path) -> None:
    workspace = finished.copy(tmp_path)
    workspace.change(lambda study: study["experiments"]["tracks"].update(seeds=3))
    before = workspace.files()
    assert workspace.planned_jobs()["train"] == 2
    assert workspace.files() == before


def test_lint_is_clean(finished: Workspace) -> None:
    done = finished.snakemake("--lint")
    assert done.returncode == 0, said(done)
    assert "good condition" in said(done)


def test_snakemake_writes_its_own_report_around_ours(finished: Workspace, tmp_path: Path) -> None:
    page = tmp_path / "workflow.html"
    done = finished.snakemake("--report", str(page))
    assert done.returncode == 0, said(done)
    text = page.read_text()
    assert "report.html" in text
    assert "Study" in text


def test_another_folder_and_the_default_profile(finished: Workspace, tmp_path: Path) -> None:
    """`--directory` moves results, not the config; the profile beside the Snakefile holds wherever one starts."""
    elsewhere = Workspace(tmp_path)
    done = elsewhere.run(
        *("snakemake", "--cores", "1", "--dry-run", "--snakefile", str(SNAKEFILE)),
        *("--directory", str(finished.folder), "--configfile", str(finished.config)),
    )
    assert done.returncode == 0, said(done)
    assert "workflow specific profile" in said(done)
    assert NOTHING in said(done)


@pytest.mark.slow
def test_results_can_move_together_with_their_data(finished: Workspace, tmp_path: Path) -> None:
    """A new seed for the cells of a data file, after everything was moved: nothing may point to the old place."""
    workspace = finished.copy(tmp_path / "moved")
    workspace.change(lambda study: study["experiments"]["table"].update(seeds=2))
    text = workspace.finish("--until", "merge")
    assert jobs(text) == {"train": 1, "theory": 1, "merge": 1}
    assert str(finished.folder) not in workspace.results.joinpath("study.json").read_text()
    tree = open_study(workspace.results).trajectories
    assert sum(node.sizes["cell"] for node in tree.children.values()) == CELLS + 1
    shutil.rmtree(workspace.folder)
