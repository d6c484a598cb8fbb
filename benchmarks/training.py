"""Training speed: the engine on two pinned workers against PyTorch, compiled PyTorch and NumPy, the matmul peak, and its own twin."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.peers import Peer, best_of, families, peers_of
from benchmarks.rows import Row, rate_row
from benchmarks.workers import Worker, ask_together

LEARNING_RATE = 0.02
LOSS_TOLERANCE = 2e-3
"""Engine and peer must end at the same loss: float32 rounding grows through the exponential phase of learning."""
RUNG_SECONDS = 0.6


@dataclass(frozen=True)
class Contest:
    """One architecture against all its peers; step counts give each side some tenths of a second a repetition."""

    row: str
    kind: str
    steps: int
    peer_steps: int


CONTESTS = (
    Contest("mlp", "mlp", 10_000, 1_500),
    Contest("cnn", "cnn", 2_000, 400),
    Contest("attention", "multi_head", 1_000, 100),
)


@dataclass
class Bench:
    """Workers that stay alive throughout, so that all sides take turns."""

    engines: list[Worker]
    peers: dict[str, list[Worker]]
    """Two of each module: one process measures, both together show what two at once do."""
    scratch: Path
    repeats: int
    peak: float = 0.0
    """Matrix products of two cores, FLOP/s."""
    absent: dict[str, str] = field(default_factory=dict)
    """Families of peers that do not run here, with the reason."""


def training_rows(torch_python: str, scratch: Path, repeats: int, scale: float) -> list[Row]:
    """Every contest, then the share of the peak and the twin's step. `scale` shortens all runs alike, for a quick look."""
    pythons = {"torch_peers": torch_python, "numpy_peers": sys.executable}
    with ExitStack() as stack:
        engines = [stack.enter_context(Worker(sys.executable, "engine")) for _ in range(2)]
        peers = {module: [stack.enter_context(Worker(python, module)) for _ in range(2)] for module, python in pythons.items()}
        bench = Bench(engines, peers, scratch, repeats)
        bench.peak = sum(max(reply["xla"], reply["numpy"]) for reply in ask_together(engines, action="matmul", size=2048, seconds=2.0))
        contests = [replace(c, steps=max(round(c.steps * scale), 300), peer_steps=round(c.peer_steps * scale)) for c in CONTESTS]
        rows = [row for contest in contests for row in _contest(bench, contest)]
        return [*rows, _peak_row(rows[0], bench.peak), _twin_row(bench, contests[0])]


def _contest(bench: Bench, contest: Contest) -> list[Row]:
    """One row for each family of peers; the engine and all peers in turns."""
    compiled = _prepare(bench.engines, contest, twin_only=False)
    lanes = compiled["lane_width"]
    arrays = bench.scratch / f"{contest.kind}.npz"
    bench.engines[0].ask(action="export", kind=contest.kind, steps=contest.steps, path=str(arrays), seeds=list(range(lanes)))
    curve = bench.engines[0].ask(action="train", name=contest.kind)
    steps, loss = max(pair for pair in zip(curve["recorded"], curve["losses"], strict=True) if pair[0] <= contest.peer_steps)
    ours: list[float] = []
    theirs: dict[Peer, list[float]] = {peer: [] for peer in peers_of(contest.kind, lanes)}
    for _ in range(bench.repeats):
        ours.append(_together(bench.engines, contest.kind))
        for peer, measured in theirs.items():
            if peer.family not in bench.absent:
                measured.extend(_peer_rate(bench, peer, bench.peers[peer.module][:1], {"arrays": str(arrays), "steps": steps}, loss))
    limits, share = _limits(bench, contest, max(ours))
    note = f"engine: 2 workers x {lanes} lanes, twin and records included; compiled in {compiled['compile_seconds']:.1f} s"
    rows = []
    for family, found in families(theirs).items():
        best, rates = best_of(found)
        together = _peer_rate(bench, best.alone(), bench.peers[best.module], {"arrays": str(arrays), "steps": steps}, loss)
        variants = {peer.name: max(rates) for peer, rates in found.items()} | {f"two processes at once ({best.alone().name})": together[0]}
        shared: dict[str, Any] = {"note": note, "limits": limits, "limit_share": share, "variants": variants}
        rows.append(rate_row(f"{contest.row}_vs_{family}", ours, best.title, rates, "steps/s", **shared))
    absent = "; ".join(f"{family} not available: {reason}" for family, reason in bench.absent.items())
    return [replace(row, note=f"{row.note}; {absent}") if absent else row for row in rows]


def _peer_rate(bench: Bench, peer: Peer, workers: list[Worker], run: dict[str, Any], loss: float) -> list[float]:
    """Steps per second of one or several processes at once; empty, and remembered with the reason, where the peer does not run here."""
    replies = ask_together(workers, learning_rate=LEARNING_RATE, warm_up=10, **peer.request, **run)
    for reply in replies:
        if "unavailable" in reply:
            bench.absent[peer.family] = reply["unavailable"]
            return []
        _same_task(f"{peer.name} after {run['steps']} steps", loss, reply["loss"])
    return [float(sum(reply["steps"] for reply in replies) / max(reply["seconds"] for reply in replies))]


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
        raise RuntimeError(f"the engine and its peer train different things: {what} the losses are {loss:.6g} and {other:.6g}")


def _limits(bench: Bench, contest: Contest, reached: float) -> tuple[str, float]:
    """(What a step's parts reach on both cores, in words; share of the peak that the whole step reaches)."""
    seeds = list(range(bench.engines[0].ask(action="lanes")["lane_width"]))
    rungs = ask_together(bench.engines, action="ladder", kind=contest.kind, seeds=seeds, seconds=RUNG_SECONDS)
    share = {name: sum(rung[name] for rung in rungs) * rungs[0]["flop"] / bench.peak for name in ("products", "nonlinear")}
    whole = reached * rungs[0]["flop"] / bench.peak
    ceiling = max(share["nonlinear"], whole)
    text = (
        f"ceiling of these shapes {ceiling:.0%} of the matmul peak (their products alone {share['products']:.0%}, with nonlinearity "
        f"{share['nonlinear']:.0%}); the whole step reaches {whole / ceiling:.0%} of it"
    )
    return text, whole


def _peak_row(mlp: Row, peak: float) -> Row:
    assert mlp.limit_share is not None
    flop = mlp.limit_share * peak / mlp.value
    achieved = [rate * flop / 1e9 for rate in mlp.repeats["value"]]
    note = "only the network's matrix products are counted; twin, tanh, update and records are not"
    peer = "float32 matmul peak of two pinned cores"
    row = rate_row("mlp_vs_peak", achieved, peer, [peak / 1e9], "GFLOP/s", note=note, limits=mlp.limits)
    return replace(row, limit_share=row.ratio)


def _twin_row(bench: Bench, contest: Contest) -> Row:
    """Steps of the twin alone against those of the network alone (both together minus the twin)."""
    _prepare(bench.engines, contest, twin_only=True)
    both, twin = [], []
    for _ in range(bench.repeats):
        both.append(_together(bench.engines, contest.kind))
        twin.append(_together(bench.engines, f"{contest.kind} twin"))
    network = [1.0 / (1.0 / b - 1.0 / t) for b, t in zip(both, twin, strict=True)]
    return rate_row("twin_vs_network", twin, "the network's own step", network, "steps/s", note="MLP 20-64-8, 600 samples, full batch")
