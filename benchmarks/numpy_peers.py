"""The peers without a framework: the same networks in NumPy, gradients written by hand.

Samples come last and buffers are left to NumPy, as one would write it; a leading axis of networks is allowed everywhere, so that one
network after another and several stacked run the same lines. Talks to benchmarks/workers.py: one JSON request and reply a line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

Array = Any
Arrays = dict[str, Array]
Gradient = Callable[[Arrays, Array, Array], tuple[Arrays, Array]]
"""(parameters, inputs, targets (outputs, samples)) to gradients and residual, for the mean over samples of the squared error."""


def mlp(parameters: Arrays, inputs: Array, targets: Array) -> tuple[Arrays, Array]:
    """inputs (features, samples)."""
    hidden, readout = parameters["hidden"], parameters["readout"]
    active = np.tanh(_t(hidden) @ inputs)
    residual = _t(readout) @ active - targets
    pull = residual * np.float32(2 / targets.shape[-1])
    back = (readout @ pull) * (1 - active * active)
    return {"hidden": inputs @ _t(back), "readout": active @ _t(pull)}, residual


def cnn(parameters: Arrays, inputs: Array, targets: Array) -> tuple[Arrays, Array]:
    """inputs (kernel size, positions * samples): the patches, cut out once."""
    kernels, readout = parameters["kernels"], parameters["readout"]
    samples = targets.shape[-1]
    active = np.tanh(kernels @ inputs)
    apart = active.reshape(*active.shape[:-1], -1, samples)
    residual = _t(readout) @ (pooled := apart.sum(-2)) - targets
    pull = residual * np.float32(2 / samples)
    back = (readout @ pull)[..., None, :] * (1 - apart * apart)
    return {"kernels": back.reshape(active.shape) @ _t(inputs), "readout": pooled @ _t(pull)}, residual


def multi_head(parameters: Arrays, inputs: Array, targets: Array) -> tuple[Arrays, Array]:
    """inputs (samples, tokens, dimension). Keys are folded into queries, readouts into values: the least arithmetic."""
    queries, keys, values, readout = (parameters[name] for name in ("queries", "keys", "values", "readout"))
    scale, last = np.float32(queries.shape[-1] ** -0.5), _t(inputs[..., -1, :])[..., None, :, :]
    asked = _t(queries) @ last
    looked = np.moveaxis(keys @ asked, -1, -3)  # (samples, heads, dimension)
    weights = _softmax(looked @ _t(inputs) * scale)
    mixed = np.moveaxis(weights @ inputs, -3, -1)
    folded = values @ readout
    residual = (_t(folded) @ mixed).sum(-3) - targets
    pull = (residual * np.float32(2 / targets.shape[-1]))[..., None, :, :]
    unfolded = mixed @ _t(pull)
    turned = np.moveaxis(folded @ pull, -1, -3) @ _t(inputs)
    inner = weights * (turned - (weights * turned).sum(-1, keepdims=True)) * scale
    back = np.moveaxis(inner @ inputs, -3, -1)
    gradients = {"queries": last @ _t(_t(keys) @ back), "keys": back @ _t(asked)}
    return gradients | {"values": unfolded @ _t(readout), "readout": _t(values) @ unfolded}, residual


GRADIENTS: dict[str, Gradient] = {"mlp": mlp, "cnn": cnn, "multi_head": multi_head}


def _t(array: Array) -> Array:
    return array.swapaxes(-1, -2)


def _softmax(scores: Array) -> Array:
    shifted = np.exp(scores - scores.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def prepare(kind: str, arrays: Arrays) -> tuple[Arrays, Array, Array]:
    """(parameters, inputs, targets) of stacked networks (a leading axis) from PyTorch's layout, in which rows are samples."""
    rest = dict(arrays)
    inputs, targets = rest.pop("inputs"), _t(rest.pop("targets"))
    if kind == "mlp":
        inputs = _t(inputs)
    if kind == "cnn":
        kernels = rest["kernels"]
        rest["kernels"] = kernels.reshape(*kernels.shape[:2], -1)
        windows = np.lib.stride_tricks.sliding_window_view(inputs[:, :, 0], kernels.shape[-2:], (-2, -1))
        patches = np.moveaxis(windows.reshape(*inputs.shape[:2], -1, rest["kernels"].shape[-1]), -1, 1)
        inputs = _t(patches).reshape(*patches.shape[:2], -1)
    return rest, np.ascontiguousarray(inputs), np.ascontiguousarray(targets)


def run(kind: str, arrays: Arrays, learning_rate: float, steps: int) -> dict[str, float]:
    """Full-batch gradient descent; `steps` counts each network's, `loss` is the first network's after them."""
    parameters, inputs, targets = prepare(kind, arrays)
    if len(targets) == 1:
        parameters, inputs, targets = {name: array[0] for name, array in parameters.items()}, inputs[0], targets[0]
    gradient, rate = GRADIENTS[kind], np.float32(learning_rate)
    start = time.perf_counter()
    for _ in range(steps):
        for name, slope in gradient(parameters, inputs, targets)[0].items():
            parameters[name] = parameters[name] - rate * slope
    seconds = time.perf_counter() - start
    residual = gradient(parameters, inputs, targets)[1].reshape(-1, *targets.shape[-2:])[0]
    stacked = 1 if targets.ndim == 2 else len(targets)
    return {"seconds": seconds, "steps": steps * stacked, "loss": float((residual**2).sum(0).mean())}


def answer(request: dict[str, Any]) -> dict[str, float]:
    """Trains `stacked` networks from the given start: `warm_up` steps untimed, then, from the start again, `steps` timed ones."""
    with np.load(request["arrays"]) as stored:
        arrays = {name: array[: request["stacked"]] for name, array in stored.items()}
    train = partial(run, request["kind"], arrays, request["learning_rate"])
    with threadpool_limits(request["threads"]):
        train(request["warm_up"])
        return train(request["steps"])


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
