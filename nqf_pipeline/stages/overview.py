"""`nqf plan` in words that are read in seconds: how much, how long, how large, and what runs why."""

from __future__ import annotations

from nqf_pipeline.stages.reasons import NOTED, Reason
from nqf_pipeline.study.plan import Plan

_TRAIN = {"network_and_twin": "networks with twins", "twin": "twins alone", "nothing": "only predicted"}


def overview(wish: Plan) -> dict[str, str]:
    """The rows of a table, each a fact that a reader asks for."""
    found = wish.summary()
    trained = {shard.bucket for shard in wish.training if not wish.done(shard)}
    timed = len(trained & set(wish.timings))
    basis = "estimated, not timed"
    if timed:
        basis = (
            "timed by the pilot" if timed == len(trained) else f"{timed} of {len(trained)} buckets timed by the pilot, the rest estimated"
        )
    left = f"about {duration(found['seconds'])} on {wish.study.engine.workers} cores for {found['jobs']:,} jobs"
    return {
        "study": found["study"],
        "cells": f"{found['cells']:,}",
        "of them": ", ".join(f"{count:,} {_TRAIN[name]}" for name, count in found["train"].items()),
        "time": f"{left} ({basis})" if found["jobs"] else "nothing left to train or predict",
        "not in this time": "merge, analysis, figures and page",
        "disk": f"about {size(found['bytes'])} in at most {found['files']:,} files in {wish.layout.root}, when all is done",
        "shards": f"{found['shards']:,} in {found['buckets']:,} buckets: {found['already_done']:,} done, {found['to_run']:,} to run"
        + (f" ({found['new']:,} new)" if found["new"] else ""),
    }


def running(found: list[Reason]) -> list[dict[str, str]]:
    """Stages that would run, and why."""
    return [
        {
            "stage": reason.stage,
            "runs because": reason.reason,
            "how many": _shards(reason) if reason.stage in ("train", "theory") else "",
        }
        for reason in found
        if reason.reason not in NOTED
    ]


def notes(found: list[Reason]) -> list[str]:
    """What alone makes nothing run."""
    return [f"{reason.stage} of {_shards(reason)}: {reason.reason}" for reason in found if reason.reason in NOTED]


def duration(seconds: float) -> str:
    """In the unit that a reader would choose, to two digits."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.{0 if seconds >= 10 * length else 1}f} {unit}"
    return f"{seconds:.0f} s"


def size(count: float) -> str:
    """Bytes, to two or three digits."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= length:
            return f"{count / length:.{0 if count >= 10 * length else 1}f} {unit}"
    return f"{count / 1e3:.0f} kB"


def _shards(reason: Reason) -> str:
    return f"{reason.count:,} shard{'s' if reason.count > 1 else ''}"
