"""Odd or even: the handwritten digits that scikit-learn ships (1797 images of 8 x 8 pixels)."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.multi_head import MultiHead
from nqf_pipeline.models.query_key import QueryKey
from nqf_pipeline.tasks.arrays import Split, data_problem, standardise
from nqf_pipeline.tasks.base import Problem, Task, TaskError

Array = Any
SPLIT_SEED = 1797
"""The same images are held out in every cell and study."""
IMAGES, SIDE = 1797, 8


class Digits(Task):
    """y = 1 for odd digits, -1 for even ones.

    Pixels: the training mean of each pixel is removed and all are divided by one standard deviation, so an entry has variance 1 on average.
    """

    shared_data: ClassVar[bool] = True

    kind: Literal["digits"] = "digits"
    samples: int = Field(default=1200, ge=1, lt=IMAGES, description="training images; the other ones of the 1797 are the test set")
    modes: int = Field(default=4, ge=1, description="modes recorded at most (one with a single linear output)")

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        self.check(architecture)
        images, labels = _digits()
        if isinstance(architecture, QueryKey | MultiHead):
            # Rows are tokens: the tokens axis comes second.
            images = images.transpose(0, 2, 1)
        train, test = np.split(np.random.default_rng(SPLIT_SEED).permutation(IMAGES), [self.samples])
        x, x_test = standardise(images[train], images[train]), standardise(images[test], images[train])
        return data_problem(Split(x, labels[train], x_test, labels[test]), architecture, self.modes, "task digits")

    def check(self, architecture: Architecture) -> None:
        if architecture.input_shape not in ((SIDE * SIDE,), (SIDE, SIDE)) or architecture.output_size != 1:
            raise TaskError(
                f"task digits: images of {SIDE} x {SIDE} pixels and one output do not fit architecture {architecture.name}, which reads "
                f"{architecture.input_shape} and has {architecture.output_size} output(s); set outputs: 1 where it has that field, and "
                "inputs: 64 (mlp and the like), image: [8, 8] (cnn), or dimension: 8 and tokens: 8 (attention, rows as tokens)"
            )


@cache
def _digits() -> tuple[Array, Array]:
    """(images (1797, 8, 8), labels (1797, 1)), as `sklearn.datasets.load_digits` gives them.

    Read from its data file, because importing sklearn.datasets takes a second that planning must not pay.
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise TaskError("task digits reads the images that scikit-learn ships, and it is not installed; install scikit-learn")
    table = np.loadtxt(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    return table[:, :-1].reshape(-1, SIDE, SIDE), np.where(table[:, -1:] % 2 == 1, 1.0, -1.0)
