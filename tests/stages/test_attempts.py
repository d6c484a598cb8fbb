"""Jobs that cannot finish: limits, polite ends, giving up and trying again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from nqf_pipeline.analysis.run import analyse
from nqf_pipeline.errors import InputError
from nqf_pipeline.stages import attempts
from nqf_pipeline.stages.attempts import _write
from nqf_pipeline.stages.placing import Work
from nqf_pipeline.stages.reasons import PENDING, Reason, reasons
from nqf_pipeline.stages.run import _end, begin, merge_study, recorded_plan, train_shard
from nqf_pipeline.stages.status import hints, study_status, unfinished
from nqf_pipeline.store.atomic import write_bytes
from nqf_pipeline.store.open import open_study
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.shards import Summary, read_record, read_shard, write_shard
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.plan import plan_study
from nqf_pipeline.study.reading import study_from
from nqf_pipeline.study.shards import Shard
from tests.store.datasets import theory
from tests.workflow.runs import PATIENCE, STUDY, Workspace, said

ENDLESS = """
import sys, time
from nqf_pipeline.stages.watch import watched
with watched(float(sys.argv[1]), lambda number: print("ended by", number) or (0 if number is None else 128 + number)):
    print("at work", flush=True)
    if sys.argv[2] == "kernel":
        import numpy as np
        while True:
            np.linalg.svd(np.ones((600, 600)))
    time.sleep(float(sys.argv[2]))
print("done", flush=True)
"""


def endless(seconds: float, work: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", ENDLESS, str(seconds), work], stdout=subprocess.PIPE, text=True)


def test_work_ends_at_its_limit_though_it_is_in_native_code() -> None:
    process = endless(1.5, "kernel")
    assert process.communicate(timeout=PATIENCE)[0].splitlines()[-1] == "ended by None"  # a busy machine may not be at work by then
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_work_ends_when_it_is_asked_to(number: signal.Signals) -> None:
    process = endless(PATIENCE, "kernel")
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    process.send_signal(number)
    assert process.communicate(timeout=PATIENCE)[0].splitlines() == [f"ended by {number.value}"]
    assert process.returncode == 128 + number


def test_work_in_time_is_left_alone() -> None:
    process = endless(PATIENCE, "0.1")
    assert process.communicate(timeout=PATIENCE)[0].splitlines() == ["at work", "done"]
    assert process.returncode == 0


@pytest.fixture
def workspace(finished: Workspace, tmp_path: Path) -> Workspace:
    return finished.copy(tmp_path)


@pytest.fixture
def shard(workspace: Workspace) -> Shard:
    """A shard with more than one lane group, not trained yet."""
    (chosen,) = (shard for shard in recorded_plan(workspace.results).shards if len(shard.lanes) > 1)
    layout = Layout(workspace.results)
    layout.shard(chosen.id).unlink()
    layout.shard_summary(chosen.id).unlink()
    return chosen


def part(finished: Workspace, shard: Shard, group: int = 1) -> xr.Dataset:
    """One trained lane group, as the training stage hands it over."""
    return read_shard(Layout(finished.results).shard(shard.id)).sel(cell=[cell.id for cell in shard.lanes[group]]).reset_coords()


def train(workspace: Workspace, shard: Shard, **options: Any) -> subprocess.CompletedProcess[str]:
    return workspace.nqf("train", "results/tiny", shard.id, **options)


def test_a_job_at_its_time_limit_keeps_what_is_trained_and_is_tried_again(workspace: Workspace, finished: Workspace, shard: Shard) -> None:
    layout, trained = Layout(workspace.results), part(finished, shard)
    _write(layout.attempts(shard.id), ["process 1 on here"])
    assert _end(workspace.results, shard, Work(shard.lane_width, [trained]), None) == 0
    assert not layout.attempts(shard.id).exists()
    stored, whole = read_shard(layout.shard(shard.id)), read_shard(Layout(finished.results).shard(shard.id))
    late = [cell.id for cell in shard.lanes[0]]
    xr.testing.assert_identical(stored.sel(cell=trained["cell"]), whole.sel(cell=trained["cell"]))
    assert set(stored["status"].sel(cell=late).values) == {Status.timed_out}
    assert np.isnan(stored["network_loss"].sel(cell=late)).all()
    np.testing.assert_array_equal(stored["step_number"], whole["step_number"])
    np.testing.assert_array_equal(stored["time"], whole["time"])

    # The rest of the study is finished, with a word about it.
    merge_study(workspace.results)
    (words,) = unfinished(recorded_plan(workspace.results))
    assert f"{len(late)} cells have status `timed_out`" in words
    assert "nqf retry" in words
    assert study_status(workspace.results)["counts"]["timed_out"] == len(late)
    frames = analyse(workspace.results)
    rows = frames["cells"].set_index("cell").loc[late]
    assert set(rows["status"]) == {"timed_out"}
    assert rows["network_loss"].isna().all()
    assert not frames["plateaus"]["cell"].isin(late).any(), "nothing is said about curves that are not there"

    # And tried again: only what is left is trained, and the bytes are those of an undisturbed job.
    said_so = workspace.nqf("retry", "results/tiny")
    assert f"to be trained again: {shard.id}" in said_so.stdout
    assert not layout.shard(shard.id).exists()
    kept = attempts.kept(layout, shard)
    assert kept is not None
    assert sorted(kept.cells["cell"].values) == sorted(trained["cell"].values)
    done = train(workspace, shard)
    assert done.returncode == 0, said(done)
    assert layout.shard(shard.id).read_bytes() == Layout(finished.results).shard(shard.id).read_bytes()
    assert not [*layout.stopped(shard.id).parent.iterdir()]


STOPPABLE = """
import time
from pathlib import Path
from nqf_pipeline.stages.run import shards_named, train_shard
(shard,) = shards_named(Path("results/tiny"), ["SHARD"])
train_shard(Path("results/tiny"), shard, lambda done: print("trained", done, flush=True) or time.sleep(600))
"""


def test_a_job_that_is_asked_to_end_keeps_what_is_trained(
    workspace: Workspace, finished: Workspace, shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(workspace.results)
    process = workspace.start(sys.executable, "-c", STOPPABLE.replace("SHARD", shard.id))
    assert process.stdout is not None
    assert process.stdout.readline().startswith("trained")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE) == 128 + signal.SIGTERM
    assert not layout.shard(shard.id).exists()
    assert not layout.attempts(shard.id).exists(), "a polite end is no failure"
    assert sorted(read_record(layout.stopped(shard.id)).cells) == sorted(cell.id for cell in shard.lanes[-1])
    first = read_record(layout.stopped(shard.id))
    assert first.device.startswith("cpu")
    assert first.timings["run"] > 0

    # The next attempt adds to it. Cores of a surrounding allocation belong to other jobs too.
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", str(len(os.sched_getaffinity(0))))
    _write(layout.attempts(shard.id), ["process 1 on here"])
    assert train(workspace, shard).returncode == 0
    assert layout.shard(shard.id).read_bytes() == Layout(finished.results).shard(shard.id).read_bytes()
    record = read_record(layout.shard(shard.id))
    assert record.threads == 1
    assert all(record.timings[stage] > seconds for stage, seconds in first.timings.items())
    assert not layout.attempts(shard.id).exists(), "a trained shard has nothing on record against it"


def test_a_shard_that_is_closed_keeps_what_earlier_attempts_trained(
    workspace: Workspace, finished: Workspace, shard: Shard, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, trained = Layout(workspace.results), part(finished, shard)
    work = Work(shard.lane_width, [trained], {"run": 7.0}, "cpu (of old)", 1, Summary(bucket=shard.bucket, versions={"commit": "old"}))
    assert _end(workspace.results, shard, work, signal.SIGTERM) == 128 + signal.SIGTERM
    assert f"asked to end (signal 15). {trained.sizes['cell']} of {len(shard.cells)} cells are trained and kept" in capsys.readouterr().err
    _write(layout.attempts(shard.id), [f"process {k} on here" for k in range(5)])
    train_shard(workspace.results, shard)
    record = read_record(layout.shard(shard.id))
    done = set(trained["cell"].values)
    assert {cell for cell, status in record.cells.items() if status == "killed"} == {cell.id for cell in shard.cells} - done
    whole = read_shard(Layout(finished.results).shard(shard.id))
    xr.testing.assert_identical(read_shard(layout.shard(shard.id)).sel(cell=trained["cell"]), whole.sel(cell=trained["cell"]))
    assert (record.timings, record.device, record.threads) == ({"run": 7.0}, "cpu (of old)", 1)
    assert record.versions["commit"].startswith("old and ")
    merge_study(workspace.results)
    commits = open_study(workspace.results).trajectories.attrs["versions"]
    assert "old" in commits["commit"] if isinstance(commits, dict) else '"old"' in commits
    assert study_status(workspace.results)["ended_from_outside"] == {}, "it is finished, such as it is"
    assert layout.attempts(shard.id).exists(), "and would be closed again if its file were lost"
    write_bytes(layout.train_benchmark(shard.id), b"s\n1.0\n")  # as the workflow writes it
    assert attempts.retry(layout) == [shard.id]
    assert not layout.attempts(shard.id).exists()
    layout.stopped(shard.id).unlink()  # as where no cell was trained
    (training, *_) = reasons(recorded_plan(workspace.results))
    assert training == Reason("train", PENDING), "not: its file is lost"


def test_trying_again_what_was_closed_forgets_no_other_attempts(workspace: Workspace, shard: Shard) -> None:
    layout = Layout(workspace.results)
    _write(layout.attempts(shard.id), ["process 1 on here"])
    assert attempts.retry(layout) == []
    assert attempts.ended_from_outside(layout, shard.id) == 1


def test_a_finished_shard_is_not_blamed_for_earlier_attempts(workspace: Workspace) -> None:
    layout, (shard, *_) = Layout(workspace.results), recorded_plan(workspace.results).training
    _write(layout.attempts(shard.id), ["process 1 on here"])
    assert study_status(workspace.results)["ended_from_outside"] == {}
    assert hints(workspace.results) == []


def test_what_is_left_without_numbers_is_counted_as_the_study_wants_it(tmp_path: Path) -> None:
    predicted = {**deepcopy(STUDY["experiments"]["tracks"]), "train": "nothing"}
    first = begin(plan_study(study_from({"name": "tiny", "experiments": {"tracks": predicted}}), tmp_path))
    for shard in first.shards:
        dataset = theory([cell.id for cell in shard.cells])
        dataset["status"] = ("cell", np.full(len(shard.cells), Status.not_predicted, np.int8))
        write_shard(first.layout.theory(shard.id), dataset, Summary(bucket=shard.bucket), "theory")
    (words,) = unfinished(first)
    assert f"{len(first.cells)} cells have status `not_predicted`" in words
    fewer = plan_study(study_from({"name": "tiny", "experiments": {"tracks": {**predicted, "seeds": 1}}}), tmp_path)
    assert len(fewer.cells) < len(first.cells)
    (words,) = unfinished(fewer)
    assert f": {len(fewer.cells)} cells have status `not_predicted`" in words


def test_a_job_ended_from_outside_too_often_is_closed(workspace: Workspace, finished: Workspace, shard: Shard) -> None:
    layout = Layout(workspace.results)
    process = workspace.start(sys.executable, "-c", STOPPABLE.replace("SHARD", shard.id))
    assert process.stdout is not None
    assert process.stdout.readline().startswith("trained")
    process.kill()
    process.wait(timeout=PATIENCE)
    assert attempts.ended_from_outside(layout, shard.id) == 1
    assert study_status(workspace.results)["ended_from_outside"] == {shard.id: 1}
    (hint,) = hints(workspace.results)
    assert f"shard {shard.id} was ended from outside" in hint
    assert "nqf skip" in hint
    assert not attempts.hopeless(layout, shard.id, 2)
    _write(layout.attempts(shard.id), [f"process {k} on here" for k in range(5)])
    done = train(workspace, shard)
    assert done.returncode == 0, said(done)
    assert f"{len(shard.cells)} of {len(shard.cells)} cells have status `killed`" in done.stderr
    assert set(read_record(layout.shard(shard.id)).cells.values()) == {"killed"}
    merge_study(workspace.results)
    assert set(analyse(workspace.results)["cells"].set_index("cell").loc[[cell.id for cell in shard.cells]]["status"]) == {"killed"}

    assert workspace.nqf("retry", "results/tiny").returncode == 0
    assert not layout.attempts(shard.id).exists()
    assert train(workspace, shard).returncode == 0
    assert layout.shard(shard.id).read_bytes() == Layout(finished.results).shard(shard.id).read_bytes()


def test_a_shard_trained_by_its_last_attempt_is_trained_again_where_it_is_lost(
    workspace: Workspace, finished: Workspace, shard: Shard
) -> None:
    layout, whole = Layout(workspace.results), Layout(finished.results)
    _write(layout.attempts(shard.id), [f"process {k} on here" for k in range(5)])  # killed right after the shard was written
    for path, source in ((layout.shard(shard.id), whole.shard(shard.id)), (layout.shard_summary(shard.id), whole.shard_summary(shard.id))):
        path.write_bytes(source.read_bytes())
    train_shard(workspace.results, shard)
    assert not layout.attempts(shard.id).exists(), "nothing is on record against a shard with all its numbers"
    layout.shard(shard.id).unlink()
    layout.shard_summary(shard.id).unlink()
    assert train(workspace, shard).returncode == 0
    assert layout.shard(shard.id).read_bytes() == whole.shard(shard.id).read_bytes()


def test_a_shard_is_given_up_by_a_command(workspace: Workspace, shard: Shard) -> None:
    layout = Layout(workspace.results)
    assert "no shard was ended from outside" in workspace.nqf("skip", "results/tiny").stdout
    assert f"given up: {shard.id}" in workspace.nqf("skip", "results/tiny", shard.id).stdout
    assert attempts.hopeless(layout, shard.id, 5)
    assert attempts.retry(layout) == [shard.id]
    assert not attempts.hopeless(layout, shard.id, 1)


@pytest.mark.parametrize(("name", "words"), [("0" * 16, "manifest.jsonl: no shard 0+ in this study"), ("", "this shard is finished")])
def test_giving_up_what_cannot_be(workspace: Workspace, name: str, words: str) -> None:
    wanted = recorded_plan(workspace.results)
    with pytest.raises(InputError, match=words):
        attempts.give_up(workspace.results, wanted, [name or wanted.shards[0].id])


def test_an_attempt_that_fails_by_itself_is_not_counted(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    with pytest.raises(InputError), attempts.attempt(layout, "a"):
        attempts.give_up(tmp_path, recorded_plan(tmp_path), [])
    assert attempts.ended_from_outside(layout, "a") == 0
    _write(layout.attempts("a"), ["process 1 on here"])
    with attempts.attempt(layout, "a"):
        assert attempts.ended_from_outside(layout, "a") == 2
    assert attempts.ended_from_outside(layout, "a") == 1, "earlier ones stay on record"
