"""Logistic ensembles in NumPy (theory sections 3 and 5), stored as a study's trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr


def logistic(time: np.ndarray, rate: np.ndarray, capacity: np.ndarray, start: np.ndarray) -> np.ndarray:
    """z(t) / z(inf) of dz/dt = z (r - C z), capacity = r / C; no overflow. Shapes broadcast, time first."""
    odds = np.log(start / (capacity - start)) + rate * time[..., None]
    return 0.5 * (1 + np.tanh(odds / 2))


def power_law(
    alpha1: float, alpha2: float, epsilon: float, modes: int = 1000, draws: np.ndarray | None = None, records: int = 256, late: float = 0.3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(time, loss, strengths) of r_k = k^-alpha2, V_k = k^-alpha1 / 8, z_k(0) = epsilon k^-(alpha1 - alpha2) times `draws`."""
    number = np.arange(1.0, modes + 1)
    rate, share = number**-alpha2, number**-alpha1 / 8
    capacity = number ** (alpha2 - alpha1)
    start = epsilon * capacity * (1.0 if draws is None else draws)
    end = 1.5 * np.log(1 / epsilon) * (late * modes) ** alpha2
    time = np.concatenate([[0.0], np.geomspace(end / 1e4, end, records - 1)])
    strength = logistic(time, rate, capacity, start)
    return time, ((1 - strength) ** 2 @ share), strength


def watched(modes: int = 1000) -> np.ndarray:
    """Numbers of the modes recorded one by one."""
    return np.unique(np.concatenate([np.arange(1, 9), np.geomspace(9, modes, 16).round()])).astype(int)


def dataset(
    curves: list[tuple[np.ndarray, np.ndarray, np.ndarray]], rate: float = 0.1, network: list[Any] | None = None, **coords: Any
) -> xr.Dataset:
    """Cells of one node: twin and theory from `curves`, the network from `network` or the same."""
    network = network or curves
    number = watched(curves[0][2].shape[-1]) if curves[0][2].shape[-1] > 30 else np.arange(1, curves[0][2].shape[-1] + 1)
    cells, steps = len(curves), np.stack([np.round(c[0] / rate).astype(int) for c in curves])
    curve, mode = ("cell", "step"), ("cell", "step", "mode")
    losses, strengths = np.stack([c[1] for c in curves]), np.stack([c[2][:, number - 1] for c in curves])
    network_loss, network_mode = np.stack([c[1] for c in network]), np.stack([c[2][:, number - 1] for c in network])
    zeros = np.zeros(losses.shape)
    return xr.Dataset(
        {
            "network_loss": (curve, network_loss),
            "twin_loss": (curve, losses),
            "divergence": (curve, zeros),
            "network_mode": (mode, network_mode),
            "twin_mode": (mode, strengths),
            "order_parameter": (mode, network_mode),
            "step_number": (curve, steps),
            "time": (curve, np.stack([c[0] for c in curves])),
            "mode_number": (("cell", "mode"), np.tile(number, (cells, 1))),
            "mode_target": (("cell", "mode"), np.ones((cells, len(number)))),
            "theory_loss": (("tier", *curve), losses[None]),
            "theory_mode": (("tier", *mode), strengths[None]),
            "theory_ignition": (("tier", "cell", "mode"), np.full((1, cells, len(number)), np.nan)),
            "status": ("cell", np.ones(cells, "int8")),
            "diverged_step": ("cell", np.full(cells, -1)),
            "loss_floor": ("cell", np.zeros(cells)),
        },
        coords={"cell": [f"{k:016x}" for k in range(cells)], "tier": ["discrete"], **coords},
    )
