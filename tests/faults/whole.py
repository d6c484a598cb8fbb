"""Whole runs of the workflow under faults: a smaller study, what heals it, and what must be the same afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.faults.ledger import message, way_out
from tests.workflow.runs import PATIENCE, STUDY, Workspace, living, new, said

EXPERIMENTS = {name: deepcopy(STUDY["experiments"][name]) for name in ("tracks", "table")}
EXPERIMENTS["tracks"] |= {"optimizers": [{"kind": "gd", "learning_rate": 0.05}]}
"""Two shards: four cells of an MLP in one lane group, and one cell of a user's file."""
WHOLE, STORED = "analyse", "merge"


def small(folder: Path, **more: Any) -> Workspace:
    return new(folder, experiments={**deepcopy(EXPERIMENTS), **more})


def heal(workspace: Workspace, *arguments: str, until: str = STORED) -> str:
    """The same command again, and what its message says where it fails. Returns what was said."""
    text = ""
    for _ in range(3):
        done = workspace.snakemake("--until", until, *arguments)
        text += said(done)
        if done.returncode == 0:
            return text
        assert "Traceback" not in said(done), said(done)
        follow(workspace, said(done))
    raise AssertionError(f"not healed by the same command and what it says: {message(text)}\n{text[-3000:]}")


def follow(workspace: Workspace, text: str) -> list[str]:
    """Delete what a message says to delete."""
    text = re.sub(r"(\S+): damaged \(.*?\)\. Delete it", r"Delete \1", " ".join(text.split()))
    pairs = re.findall(r"[Dd]elet(?:e|ing) (\S+)(?: and (\S+\.json))?", text)
    found = []
    for name in sorted({Path(part.rstrip(".,;")).name for pair in pairs for part in pair if "." in part}):
        found += [path for path in workspace.results.rglob(name) if _named(path, text)]
    for path in found:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return [path.name for path in found]


def _named(path: Path, text: str) -> bool:
    """Shards and predictions have the same names in two folders: the message gives the folder."""
    return path.parent.name not in ("shards", "theory") or f"{path.parent.name}/{path.name.split('.')[0]}" in text


def same(workspace: Workspace, undisturbed: Workspace) -> None:
    """The store, and the tables where they are made, byte for byte; no half-written file anywhere."""
    found, truth = workspace.lasting(), undisturbed.lasting()
    tables = any(name.endswith(".csv") for name in found)
    expected = {name: data for name, data in truth.items() if tables or name.startswith("trajectories")}
    assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())
    differ = [name for name in expected if found[name] != expected[name]]
    assert not differ, f"other bytes than those of an undisturbed run: {', '.join(differ)}"
    assert not (left := list(workspace.results.rglob("*.tmp"))), left


def finished_work(workspace: Workspace) -> dict[str, bytes]:
    """Shards that are whole now."""
    done = {path.stem for path in workspace.results.glob("shards/*.json")}
    return {name: data for name, data in workspace.contents("shards/*.zip").items() if Path(name).name.split(".")[0] in done}


def kept(workspace: Workspace, before: dict[str, bytes]) -> None:
    """Nothing finished is lost."""
    now = workspace.contents("shards/*.zip")
    assert all(now.get(name) == data for name, data in before.items()), "finished shards were lost"


def silence(workspace: Workspace, seconds: float = PATIENCE) -> None:
    """Wait until no process of the workspace lives."""
    end = time.monotonic() + seconds
    while living(workspace):
        assert time.monotonic() < end, "processes go on"
        time.sleep(0.05)


def stop_all(workspace: Workspace) -> None:
    for process in living(workspace):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def ended(process: subprocess.Popen[str], *names: str, seconds: float = PATIENCE) -> str:
    """What a disturbed run said; where it failed, with the way out."""
    text = process.communicate(timeout=seconds)[0]
    if process.returncode > 0:
        way_out(text, *names)
    return text


def cell_status(workspace: Workspace) -> dict[str, int]:
    done = workspace.nqf("status", "results/tiny", "--json")
    assert done.returncode == 0, said(done)
    counts: dict[str, int] = json.loads(done.stdout)["counts"]
    return counts
