"""Locks that end with their process, however it ends."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages.locks import claim_run, only_one, running_since
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.manifest import Manifest, append

HOLD = """
import sys
from pathlib import Path
from nqf_pipeline.stages.locks import claim_run, only_one
from nqf_pipeline.study.layout import Layout
layout = Layout(Path(sys.argv[1]))
if sys.argv[2] == "workflow":
    claim_run(layout)
    print("held", flush=True)
    sys.stdin.read()
with only_one(layout, sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "results" / "tiny")


@pytest.fixture
def holder(layout: Layout) -> Iterator[Any]:
    """Processes that hold a lock until they are killed."""
    started = []

    def start(job: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(layout.root), job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_job_runs_as_long_as_its_process(layout: Layout, holder: Any) -> None:
    assert running_since(layout, "aa") is None
    begun = time.time()
    process = holder("aa")
    since = running_since(layout, "aa")
    assert since is not None
    assert begun - 1 < since <= time.time()
    assert running_since(layout, "aa") == since, "looking does not disturb"
    assert running_since(layout, "bb") is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert running_since(layout, "aa") is None
    assert layout.running("aa").exists()


def test_a_second_process_waits_for_the_first(layout: Layout, holder: Any, capsys: pytest.CaptureFixture[str]) -> None:
    process = holder("aa")
    entered = threading.Event()

    def second() -> None:
        with only_one(layout, "aa"):
            entered.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert not entered.wait(0.3)
    with only_one(layout, "bb"):
        pass  # other jobs go on
    process.kill()
    assert entered.wait(10)
    thread.join()
    assert f"Waiting for another process that does `aa` of {layout.root}" in capsys.readouterr().err


def test_one_run_of_a_study(layout: Layout, holder: Any) -> None:
    process = holder("workflow")
    with pytest.raises(
        InputError, match=rf"results/tiny: another run of this study goes on \(process {process.pid} on .*Wait until it ends"
    ):
        claim_run(layout)
    claim_run(Layout(layout.root.with_name("other")))
    process.kill()
    process.wait()
    claim_run(layout)
    claim_run(layout)  # one process may plan twice


def test_a_lock_that_cannot_be_made_is_bad_input(layout: Layout) -> None:
    layout.root.parent.mkdir()
    layout.root.write_text("a file")
    with pytest.raises(InputError, match=r"cannot be written.*finished work is untouched"), only_one(layout, "aa"):
        pass
    with pytest.raises(InputError, match="cannot be written"):
        claim_run(layout)
    assert running_since(layout, "aa") is None


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named(layout: Layout, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def absent(*_: Any) -> None:
        raise OSError(number, "not here")

    monkeypatch.setattr("fcntl.flock", absent)
    with pytest.raises(
        InputError, match=r"running/workflow: this file system cannot lock files \(not here\).*option `flock`.*another file system"
    ):
        claim_run(layout)
    with pytest.raises(InputError, match="running/merge: this file system cannot lock"), only_one(layout, "merge"):
        pytest.fail("went on without a lock")
    with pytest.raises(InputError, match=r"manifest\.jsonl: this file system cannot lock"):
        append(layout.manifest, "tiny", Manifest(), [])
    assert running_since(layout, "merge") is None


@pytest.mark.parametrize("call", ["ftruncate", "pwrite", "utime"])
def test_a_claim_that_cannot_be_signed_is_given_back(layout: Layout, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for claim in (lambda: claim_run(layout), lambda: only_one(layout, "merge").__enter__()):
        with monkeypatch.context() as failing:
            failing.setattr(f"nqf_pipeline.stages.locks.os.{call}", full)
            with pytest.raises(InputError, match="no space left"):
                claim()
        claim()
