"""Training speed: the engine on two pinned workers against a plain PyTorch loop, the matmul peak, and its own twin."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, rate_row
from benchmarks.workers import Worker, ask_together

MLP_FLOP = 2 * 600 * (2 * 20 * 64 + 3 * 64 * 8)
"""Matrix products of one MLP step: forward, and the gradients of readout, hidden layer and first layer; 600 samples."""
LEARNING_RATE = 0.02
LOSS_TOLERANCE = 2e-3
"""Engine and peer must end at the same loss: float32 rounding grows through the exponential phase of learning."""


@dataclass(frozen=True)
class Contest:
    """One architecture against its PyTorch forms; step counts give each side about a second a repetition."""

    row: str
    kind: str
    variants: tuple[str, ...]
    steps: int
    peer_steps: int
    threads: tuple[int, ...] = (1, 2)


CONTESTS = (
    Contest("mlp_vs_torch", "mlp", ("mlp",), 10_000, 5_000),
    Contest("cnn_vs_torch", "cnn", ("cnn",), 2_000, 1_000),
    Contest("cnn_vs_torch_patches", "cnn", ("cnn_patches",), 2_000, 1_000),
    Contest("attention_vs_torch", "multi_head", ("multi_head", "multi_head_sdpa"), 1_000, 200),
)


def training_rows(torch_python: str, scratch: Path, repeats: int, scale: float) -> list[Row]:
    """Every contest, then the share of the peak and the twin's step, from workers that stay alive throughout.

    `scale` shortens all runs alike, for a quick look.
    """
    with ExitStack() as stack:
        engines = [stack.enter_context(Worker(sys.executable, "engine")) for _ in range(2)]
        peer = stack.enter_context(Worker(torch_python, "torch_peers"))
        peaks = [max(rates["xla"], rates["numpy"]) for rates in ask_together(engines, action="matmul", size=2048, seconds=2.0)]
        contests = [replace(c, steps=max(round(c.steps * scale), 300), peer_steps=round(c.peer_steps * scale)) for c in CONTESTS]
        rows = [_contest(contest, engines, peer, scratch, repeats) for contest in contests]
        return [*rows, _peak_row(rows[0], sum(peaks)), _twin_row(engines, contests[0], repeats)]


def _contest(contest: Contest, engines: list[Worker], peer: Worker, scratch: Path, repeats: int) -> Row:
    compiled = _prepare(engines, contest, twin_only=False)
    arrays = scratch / f"{contest.kind}.npz"
    engines[0].ask(action="export", kind=contest.kind, steps=contest.steps, path=str(arrays))
    curve = engines[0].ask(action="train", name=contest.kind)
    peer_steps, loss = max(pair for pair in zip(curve["recorded"], curve["losses"], strict=True) if pair[0] <= contest.peer_steps)
    ours: list[float] = []
    theirs: dict[tuple[str, int], list[float]] = {(variant, threads): [] for variant in contest.variants for threads in contest.threads}
    for _ in range(repeats):
        ours.append(_together(engines, contest.kind))
        for (variant, threads), rates in theirs.items():
            request = {"kind": variant, "arrays": str(arrays), "learning_rate": LEARNING_RATE, "threads": threads, "warm_up": 20}
            reply = peer.ask(**request, steps=peer_steps)
            _same_task(f"{variant} after {peer_steps} steps", loss, reply["loss"])
            rates.append(reply["steps"] / reply["seconds"])
    (variant, threads), best = max(theirs.items(), key=lambda item: max(item[1]))
    name = f"PyTorch autograd loop ({variant}, {threads} thread{'s' * (threads > 1)})"
    note = f"engine: 2 workers x {compiled['lane_width']} lanes, twin and records included; compiled in {compiled['compile_seconds']:.1f} s"
    return rate_row(contest.row, ours, name, best, "steps/s", note=note)


def _prepare(engines: list[Worker], contest: Contest, *, twin_only: bool) -> dict[str, Any]:
    name = f"{contest.kind}{' twin' * twin_only}"
    replies = []
    for position, engine in enumerate(engines):
        width = engine.ask(action="lanes")["lane_width"]
        seeds = list(range(position * width, (position + 1) * width))
        replies.append(engine.ask(action="prepare", name=name, kind=contest.kind, seeds=seeds, steps=contest.steps, twin_only=twin_only))
    return max(replies, key=lambda reply: reply["compile_seconds"])


def _together(engines: list[Worker], name: str) -> float:
    """Steps per second of both workers, each over all its lanes, by the slower one's clock."""
    replies = ask_together(engines, action="train", name=name)
    return float(sum(reply["steps"] for reply in replies) / max(reply["seconds"] for reply in replies))


def _same_task(what: str, loss: float, other: float) -> None:
    """Both sides must solve the same task: equal losses after equally many steps from equal weights."""
    if not abs(loss - other) <= LOSS_TOLERANCE * abs(other):
        raise RuntimeError(f"the engine and PyTorch train different things: {what} the losses are {loss:.6g} and {other:.6g}")


def _peak_row(mlp: Row, peak: float) -> Row:
    achieved = [rate * MLP_FLOP / 1e9 for rate in mlp.repeats["value"]]
    row = rate_row("mlp_vs_peak", achieved, "float32 matmul peak of two pinned cores", [peak / 1e9], "GFLOP/s")
    note = "only the network's matrix products are counted; twin, tanh, update and records are not"
    return Row(**{**vars(row), "limit_share": row.ratio, "note": note})


def _twin_row(engines: list[Worker], contest: Contest, repeats: int) -> Row:
    """Steps of the twin alone against those of the network alone (both together minus the twin)."""
    _prepare(engines, contest, twin_only=True)
    both, twin = [], []
    for _ in range(repeats):
        both.append(_together(engines, contest.kind))
        twin.append(_together(engines, f"{contest.kind} twin"))
    network = [1.0 / (1.0 / b - 1.0 / t) for b, t in zip(both, twin, strict=True)]
    return rate_row("twin_vs_network", twin, "the network's own step", network, "steps/s", note="MLP 20-64-8, 600 samples, full batch")
