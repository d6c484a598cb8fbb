"""What a workflow would run over a results folder, and why: the words behind `nqf plan`.

Snakemake decides by absent files, their times and the identities of rules; this names, for every stage, which of them makes it run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages.locks import running_since
from nqf_pipeline.stages.provenance import versions
from nqf_pipeline.store.atomic import unsealed
from nqf_pipeline.study.config import Study
from nqf_pipeline.study.document import Document
from nqf_pipeline.study.plan import Plan
from nqf_pipeline.study.reading import as_stored
from nqf_pipeline.study.shards import Shard

NEW, PENDING, LOST = "new cells", "planned before and not run yet", "done before, and its file is lost"
RUNNING = "being trained now"
STOPPED = "stopped before its end; what it had trained is kept"
ENDED = "ended from outside (memory, SIGKILL, power) before it was done; it is tried again"
CLOSED = "ended from outside too often, or given up (`nqf skip`): written without training what is left of it"
UNFINISHED = "its file is there without its summary: the job did not finish"
DAMAGED = "damaged (unreadable summary, or a file of another size): merging stops until both are deleted, then it runs again"
OTHER_VERSION = "of another version; renewed whenever predictions are made"
NOTED = {DAMAGED, OTHER_VERSION}
"""What alone makes nothing run."""


@dataclass(frozen=True)
class Reason:
    """Why a stage runs: of `count` shards, or 1 for a stage of the whole study."""

    stage: str
    reason: str
    count: int = 1


def reasons(wish: Plan) -> list[Reason]:
    """In the order of the stages; empty where nothing would run."""
    new = {shard.id for shard in wish.new_shards}
    training = Counter(_of_shard(wish, shard, new) for shard in wish.training)
    theory = Counter(_of_prediction(wish, shard, new) for shard in wish.shards)
    found = [
        Reason(stage, text, n) for stage, texts in (("train", training), ("theory", theory)) for text, n in sorted(texts.items()) if text
    ]
    recorded = _recorded(wish)
    merge = list(_merge(wish, recorded, any(reason.reason not in NOTED for reason in found)))
    analyse = list(_analyse(wish, recorded, bool(merge)))
    report = list(_report(wish, recorded, bool(merge or analyse)))
    return [
        *found,
        *(Reason(stage, text) for stage, texts in (("merge", merge), ("analyse", analyse), ("report", report)) for text in texts),
    ]


def _of_shard(wish: Plan, shard: Shard, new: set[str]) -> str:
    """Empty where nothing is to be done."""
    layout = wish.layout
    arrays, summary = layout.shard(shard.id), layout.shard_summary(shard.id)
    if arrays.exists() and summary.exists():
        return "" if _whole(arrays, _json(summary)) else DAMAGED
    if shard.id in new:
        return NEW
    if arrays.exists():
        return UNFINISHED
    if layout.attempts(shard.id).exists():
        return _of_attempts(wish, shard)
    if layout.stopped(shard.id).exists():
        return STOPPED
    return LOST if summary.exists() or layout.train_benchmark(shard.id).exists() else PENDING


def _of_attempts(wish: Plan, shard: Shard) -> str:
    """Of a shard with attempts on record: one may be at work now."""
    from nqf_pipeline.stages.attempts import hopeless  # xarray behind it; few plans get here

    if running_since(wish.layout, shard.id) is not None:
        return RUNNING
    return CLOSED if hopeless(wish.layout, shard.id, wish.study.engine.attempts) else ENDED


def _of_prediction(wish: Plan, shard: Shard, new: set[str]) -> str:
    arrays, record = wish.layout.theory(shard.id), _json(wish.layout.theory_summary(shard.id))
    if record is None:
        return NEW if shard.id in new else LOST if arrays.exists() else PENDING
    if not _whole(arrays, record):
        return DAMAGED
    return "" if record.get("versions") == versions() else OTHER_VERSION


def _whole(arrays: Path, record: dict[str, Any] | None) -> bool:
    """Whether a file has the size that its summary names; reading it for its checksum is left to merging."""
    try:
        return record is not None and arrays.stat().st_size == record.get("bytes")
    except FileNotFoundError:
        return False


def _json(path: Path) -> dict[str, Any] | None:
    try:
        return unsealed(json.loads(path.read_bytes()))
    except (OSError, ValueError, AttributeError):
        return None


def _recorded(wish: Plan) -> Study | None:
    """The config of the latest run; None where there is none that this version reads."""
    values = _json(wish.layout.study)
    try:
        return None if values is None else Study.model_validate(values).read_from(Document(values, str(wish.layout.study)))
    except ValueError:
        return None


def _same_cells(wish: Plan, recorded: Study) -> bool:
    """Whether the latest run wanted these cells under these experiment names."""
    from nqf_pipeline.study.grid import build_grid

    if as_stored(wish.study, wish.layout.root)["experiments"] == recorded.document.data["experiments"]:
        return True
    try:
        before = build_grid(recorded).cells
    except InputError:  # of files that are not there any more
        return False
    return {cell.id: cell.experiment for cell in before.values()} == {cell.id: cell.experiment for cell in wish.cells}


def _merge(wish: Plan, recorded: Study | None, upstream: bool) -> Iterator[str]:
    if not wish.layout.merged.exists():
        yield "trajectories.json is absent"
    elif upstream:
        yield "shards or predictions are made"
    elif recorded is not None and not _same_cells(wish, recorded):
        yield "other cells, or experiments of other names, than in the last run"


def _analyse(wish: Plan, recorded: Study | None, upstream: bool) -> Iterator[str]:
    absent = [path.name for path in wish.layout.tables if not path.exists()]
    if upstream:
        yield "trajectories are merged"
    elif absent:
        yield f"tables are absent: {', '.join(absent)}"
    if recorded is not None and recorded.analysis != wish.study.analysis:
        yield "analysis settings changed"


def _report(wish: Plan, recorded: Study | None, upstream: bool) -> Iterator[str]:
    if upstream:
        yield "tables or trajectories are made"
    elif not (wish.layout.figure_list.exists() and wish.layout.report.exists()):
        yield "figures or page are absent"
    if recorded is not None and recorded.report != wish.study.report:
        yield "report settings changed"
