"""The peers: the same networks trained by PyTorch, as a plain loop or compiled. Runs in the environment of requirements-bench.lock.

Rows are samples, one model after another; the update is written out, which is a little faster than `torch.optim.SGD`. Compiled are the loss
with its gradient (the usual way) or the whole step with its update (`torch.func.grad`, so that nothing is left to Python but the loop).
Inputs, targets and initial weights are the engine's. Talks to benchmarks/workers.py: one JSON request and one JSON reply a line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

torch._dynamo.config.recompile_limit = 64  # every architecture and number of threads compiles one and the same function

Forward = Callable[[list[Tensor], Tensor], Tensor]
Loss = Callable[[list[Tensor], Tensor, Tensor], Tensor]


def mlp(parameters: list[Tensor], inputs: Tensor) -> Tensor:
    """inputs (samples, features)."""
    hidden, readout = parameters
    return torch.tanh(inputs @ hidden) @ readout


def cnn(parameters: list[Tensor], inputs: Tensor) -> Tensor:
    """inputs (samples, 1, rows, columns)."""
    kernels, readout = parameters
    return torch.tanh(functional.conv2d(inputs, kernels)).sum((2, 3)) @ readout


def cnn_patches(parameters: list[Tensor], inputs: Tensor) -> Tensor:
    """The same with the patches (samples, positions, kernel size) cut out once: the convolution is a matrix product, as in the engine."""
    kernels, readout = parameters
    return torch.tanh(inputs @ kernels.flatten(1).T).sum(1) @ readout


def multi_head(parameters: list[Tensor], inputs: Tensor) -> Tensor:
    """inputs (samples, tokens, dimension); the last token asks."""
    queries, keys, values, readout = parameters
    asked = torch.einsum("sd,hdk->shk", inputs[:, -1], queries)
    key = torch.einsum("snd,hdk->shnk", inputs, keys)
    value = torch.einsum("snd,hdv->shnv", inputs, values)
    weights = torch.softmax((asked[:, :, None] * key).sum(-1) / key.shape[-1] ** 0.5, -1)
    return torch.einsum("shn,shnv,hvo->so", weights, value, readout)


def multi_head_sdpa(parameters: list[Tensor], inputs: Tensor) -> Tensor:
    """The same through PyTorch's fused attention."""
    queries, keys, values, readout = parameters
    asked = torch.einsum("sd,hdk->shk", inputs[:, -1], queries)
    key = torch.einsum("snd,hdk->shnk", inputs, keys)
    value = torch.einsum("snd,hdv->shnv", inputs, values)
    attended = functional.scaled_dot_product_attention(asked[:, :, None], key, value)[:, :, 0]
    return torch.einsum("shv,hvo->so", attended, readout)


FORWARDS: dict[str, Forward] = {forward.__name__: forward for forward in (mlp, cnn, cnn_patches, multi_head, multi_head_sdpa)}


class Training:
    """Full-batch gradient descent on the mean over samples of the sum over outputs of the squared error."""

    def __init__(self, kind: str, arrays: dict[str, np.ndarray], learning_rate: float, compiled: str) -> None:
        tensors = {name: torch.tensor(array, dtype=torch.float32) for name, array in arrays.items()}
        self.inputs, self.targets = tensors.pop("inputs"), tensors.pop("targets")
        self.parameters = [tensor.requires_grad_(compiled != "step") for tensor in tensors.values()]
        self.learning_rate = learning_rate
        self.kind, self.loss = kind, loss_of(kind, compiled == "loss")
        self.step = step_of(kind) if compiled == "step" else self._plain_step
        if kind == "cnn_patches":
            self.inputs = functional.unfold(self.inputs, tensors["kernels"].shape[2:]).transpose(1, 2).contiguous()

    def _plain_step(self, parameters: list[Tensor], inputs: Tensor, targets: Tensor, learning_rate: float) -> list[Tensor]:
        gradients = torch.autograd.grad(self.loss(parameters, inputs, targets), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(learning_rate * gradient)
        return parameters

    def run(self, steps: int) -> dict[str, float]:
        start = time.perf_counter()
        for _ in range(steps):
            self.parameters = self.step(self.parameters, self.inputs, self.targets, self.learning_rate)
        seconds = time.perf_counter() - start
        with torch.no_grad():
            loss = loss_of(self.kind, False)(self.parameters, self.inputs, self.targets)
        return {"seconds": seconds, "steps": steps, "loss": float(loss)}


@lru_cache
def loss_of(kind: str, compiled: bool) -> Loss:
    """The loss as a function of parameters, inputs, targets; one function object each, so that a compilation is found again."""
    forward = FORWARDS[kind]

    def loss(parameters: list[Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        return ((forward(parameters, inputs) - targets) ** 2).sum(1).mean()

    return torch.compile(loss, dynamic=False) if compiled else loss


@lru_cache
def step_of(kind: str) -> Callable[[list[Tensor], Tensor, Tensor, float], list[Tensor]]:
    """A whole step as one compiled program, which returns new parameters."""
    gradient = torch.func.grad(loss_of(kind, False))

    def step(parameters: list[Tensor], inputs: Tensor, targets: Tensor, learning_rate: float) -> list[Tensor]:
        slopes = gradient(parameters, inputs, targets)
        return [parameter - learning_rate * slope for parameter, slope in zip(parameters, slopes, strict=True)]

    return torch.compile(step, dynamic=False)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Trains from the given start: `warm_up` steps untimed, then, from the start again, `steps` timed ones."""
    torch.set_num_threads(request["threads"])
    with np.load(request["arrays"]) as stored:
        arrays = {name: array[0] for name, array in stored.items()}
    build = partial(Training, request["kind"], arrays, request["learning_rate"], request["compiled"])
    try:
        build().run(request["warm_up"])
    except RuntimeError as error:  # torch.compile needs a C++ compiler
        return {"unavailable": str(error).strip().splitlines()[0]}
    return build().run(request["steps"])


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
