"""The peers: the same networks trained by a plain PyTorch autograd loop. Runs in the environment of requirements-bench.lock.

Rows are samples, one model after another; the update is written out, which is a little faster than `torch.optim.SGD`. Inputs, targets and
initial weights are the engine's. Talks to benchmarks/workers.py: one JSON request and one JSON reply a line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Forward = Callable[[list[Tensor], Tensor], Tensor]


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

    def __init__(self, kind: str, arrays: dict[str, np.ndarray], learning_rate: float) -> None:
        tensors = {name: torch.tensor(array, dtype=torch.float32) for name, array in arrays.items()}
        self.forward = FORWARDS[kind]
        self.inputs, self.targets = tensors.pop("inputs"), tensors.pop("targets")
        self.parameters = [tensor.requires_grad_() for tensor in tensors.values()]
        self.learning_rate = learning_rate
        if kind == "cnn_patches":
            self.inputs = functional.unfold(self.inputs, tensors["kernels"].shape[2:]).transpose(1, 2).contiguous()

    def loss(self) -> Tensor:
        residual = self.forward(self.parameters, self.inputs) - self.targets
        return (residual**2).sum(1).mean()

    def run(self, steps: int) -> dict[str, float]:
        start = time.perf_counter()
        for _ in range(steps):
            gradients = torch.autograd.grad(self.loss(), self.parameters)
            with torch.no_grad():
                for parameter, gradient in zip(self.parameters, gradients, strict=True):
                    parameter.sub_(self.learning_rate * gradient)
        seconds = time.perf_counter() - start
        with torch.no_grad():
            return {"seconds": seconds, "steps": steps, "loss": float(self.loss())}


def answer(request: dict[str, Any]) -> dict[str, float]:
    """Trains from the given start: `warm_up` steps untimed, then, from the start again, `steps` timed ones."""
    torch.set_num_threads(request["threads"])
    with np.load(request["arrays"]) as stored:
        arrays = dict(stored)
    Training(request["kind"], arrays, request["learning_rate"]).run(request["warm_up"])
    return Training(request["kind"], arrays, request["learning_rate"]).run(request["steps"])


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
