"""A merge that is killed at any moment leaves the old store whole or the new one, and the next merge heals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqf_pipeline.errors import InputError
from nqf_pipeline.store.carry import list_files
from nqf_pipeline.store.merge import STORE, merge
from nqf_pipeline.store.open import open_study
from tests.store.datasets import Row
from tests.store.studies import PARTS, ROOT, cell, contents, extended, from_nothing, started, write
from tests.workflow.runs import PATIENCE


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write(tmp_path / "results", started())
    merge(tmp_path / "results", started(), ROOT)
    return tmp_path / "results"


def check_after_a_kill(results: Path, old: dict[str, object], new: dict[str, object]) -> bool:
    """The store opens as the old one or the new one, or the message says what to do; the next merge heals. Whether it opened."""
    message = refusal(results)
    assert message == "" or "Start the workflow" in message
    if not message:
        assert list_files(results / STORE) in (old["store"], new["store"])
    whole = [folder for folder in (STORE, f".{STORE}.old") if list_files(results / folder) in (old["store"], new["store"])]
    assert whole, "neither the old store nor the new one is whole"
    merge(results, extended(), ROOT)
    assert contents(results) == new
    assert {path.name for path in results.iterdir()} == {"shards", "theory", STORE, *PARTS}
    return message == ""


def refusal(results: Path) -> str:
    """Why a study does not open; nothing when it does."""
    try:
        open_study(results, verify=True)
    except InputError as error:
        return str(error)
    return ""


def test_killed_at_every_step_of_the_swap(results: Path, tmp_path: Path) -> None:
    """A real SIGKILL, before each rename and removal, and among the writes before and the removals after."""
    old = contents(results)
    write(results, extended())
    new = from_nothing(results, extended(), tmp_path / "nothing")
    command = (sys.executable, "-m", "tests.store.killed_merges", str(tmp_path), "150")
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    opened = {step: check_after_a_kill(tmp_path / f"killed_{step:04d}", old, new) for step in report["killed"]}
    assert len(opened) >= 12
    assert all(opened[step] for step in opened if step <= report["swap"]), "until the swap begins the old store is the study's"
    assert opened[max(opened)], "once the listing is written the new one is"
    assert 3 <= sum(not fine for fine in opened.values()) <= 8, "a handful of renames in between"


class Killed(BaseException):
    """Ends a merge where it is, as a signal does: nothing is cleaned up."""


Wanted = dict[tuple[str, int], str]
"""Label of each wanted (bucket, seed)."""


def change(wanted: Wanted, draw: Callable[..., object]) -> None:
    """Extend, shrink or relabel."""
    kind = draw(st.sampled_from(["extend", "extend", "shrink", "relabel"]))
    known = sorted(wanted)
    if kind == "extend" or len(known) < 2:
        wanted[draw(st.sampled_from(["b_1", "b_2", "b_3"])), draw(st.integers(0, 4))] = "main"  # type: ignore[index]
    elif kind == "shrink":
        del wanted[draw(st.sampled_from(known))]  # type: ignore[arg-type]
    else:
        wanted[draw(st.sampled_from(known))] = str(draw(st.sampled_from(["main", "other"])))  # type: ignore[index]


def merge_and_kill(results: Path, rows: list[Row], at: int, patch: pytest.MonkeyPatch) -> None:
    """Merge until the `at`-th file is written, linked, renamed or removed."""
    left = [at]

    def counted(work: Callable[..., object]) -> Callable[..., object]:
        def stepped(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return work(*arguments, **options)

        return stepped

    with patch.context() as inner:
        for owner, name in ((Path, "write_bytes"), (Path, "rename"), (Path, "replace"), (Path, "unlink"), (os, "link"), (shutil, "rmtree")):
            inner.setattr(owner, name, counted(getattr(owner, name)))
        try:
            merge(results, rows, ROOT)
        except Killed:
            return


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_history_ends_in_the_same_store(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("history")
    results, wanted = folder / "results", {("b_1", 0): "main"}
    for step in range(data.draw(st.integers(1, 4))):
        change(wanted, data.draw)
        rows = [cell(bucket, seed, label) for (bucket, seed), label in wanted.items()]
        write(results, rows)
        if data.draw(st.booleans()):
            with pytest.MonkeyPatch.context() as patch:
                merge_and_kill(results, rows, data.draw(st.integers(0, 250)), patch)
        if data.draw(st.booleans()):
            merge(results, rows, ROOT)
            assert contents(results) == from_nothing(results, rows, folder / f"nothing_{step}")
    merge(results, rows, ROOT)
    assert contents(results) == from_nothing(results, rows, folder / "nothing")
