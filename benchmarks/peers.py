"""The forms in which PyTorch, compiled PyTorch and NumPy train each architecture, and which of them count together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

FORWARDS = {"mlp": ("mlp",), "cnn": ("cnn", "cnn_patches"), "multi_head": ("multi_head", "multi_head_sdpa")}
"""PyTorch's forward passes (benchmarks/torch_peers.py) by architecture."""
COMPILED = {"mlp": ("mlp",), "cnn": ("cnn_patches",), "multi_head": ("multi_head",)}
"""Those that are compiled as well: where the plain loop shows one form ahead, that one."""
TITLES = {
    "torch": "PyTorch autograd loop",
    "torch_patches": "PyTorch autograd loop",
    "torch_compile": "torch.compile",
    "numpy": "NumPy, hand-written gradients",
}
"""By family: the last part of a row's name."""


@dataclass(frozen=True)
class Peer:
    """One way to train one architecture, in one process."""

    family: str
    kind: str
    threads: int
    compiled: str = ""
    stacked: int = 1

    @property
    def module(self) -> str:
        return "numpy_peers" if self.family == "numpy" else "torch_peers"

    @property
    def request(self) -> dict[str, Any]:
        """What the worker is told."""
        return {"kind": self.kind, "threads": self.threads, "compiled": self.compiled, "stacked": self.stacked}

    @property
    def name(self) -> str:
        how = [
            self.kind,
            f"{self.compiled} compiled" if self.compiled else "",
            f"{self.stacked} networks stacked" if self.stacked > 1 else "",
        ]
        return ", ".join([*filter(None, how), f"{self.threads} thread{'s' * (self.threads > 1)}"])

    @property
    def title(self) -> str:
        return f"{TITLES[self.family]} ({self.name})"

    def alone(self) -> Peer:
        """On one thread, as two of them share two cores."""
        return replace(self, threads=1)


def peers_of(kind: str, lanes: int) -> Iterator[Peer]:
    """Every peer of an architecture, on one thread and on two."""
    for threads in (1, 2):
        for forward in FORWARDS[kind]:
            yield Peer("torch_patches" if forward.endswith("patches") else "torch", forward, threads)
        for forward in COMPILED[kind]:
            yield Peer("torch_compile", forward, threads, compiled="loss")
            yield Peer("torch_compile", forward, threads, compiled="step")
        yield Peer("numpy", kind, threads)
        yield Peer("numpy", kind, threads, stacked=lanes)


def families(rates: Mapping[Peer, list[float]]) -> dict[str, dict[Peer, list[float]]]:
    """Peers that ran, by family."""
    found: dict[str, dict[Peer, list[float]]] = {}
    for peer, values in rates.items():
        if values:
            found.setdefault(peer.family, {})[peer] = values
    return found


def best_of(rates: Mapping[Peer, list[float]]) -> tuple[Peer, list[float]]:
    """The fastest peer with all its repetitions."""
    return max(rates.items(), key=lambda item: max(item[1]))
