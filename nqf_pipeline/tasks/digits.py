"""Handwritten digits: odd or even, or all ten. The packaged images, or a user's MNIST files."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field, model_validator

from nqf_pipeline.forms.losses import Labels
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.multi_head import MultiHead
from nqf_pipeline.models.query_key import QueryKey
from nqf_pipeline.tasks.arrays import Split, data_problem, standardise
from nqf_pipeline.tasks.base import Labelled, Problem, TaskError
from nqf_pipeline.tasks.images import Images, fingerprint, packaged, read_images

Array = Any
SPLIT_SEED = 1797
"""The same images are held out in every cell and study."""
MOST_TEST = 2000
"""Test images of a user's files."""


class Digits(Labelled):
    """y = 1 for odd digits, -1 for even ones; or one output for each of the ten digits, 1 for an image's own (-1 for others if logistic).

    Pixels: the training mean of each pixel is removed and all are divided by one standard deviation, so an entry has variance 1 on average.
    """

    shared_data: ClassVar[bool] = True

    kind: Literal["digits"] = "digits"
    samples: int = Field(default=1200, ge=1, description="training images; of the 1797 packaged ones, the others are the test set")
    modes: int = Field(default=4, ge=1, description="modes recorded at most (one with a single linear output)")
    labels: Literal["parity", "classes"] = Field(
        default="parity",
        description="`parity`: odd or even, one output; `classes`: which of the ten digits, ten outputs",
        json_schema_extra={"absent": "parity"},
    )
    path: str | None = Field(
        default=None,
        description="MNIST files instead of the packaged images: a folder with the idx files (plain or .gz), a file of images with its "
        "labels beside it, or a .npz file with x_train and y_train; the contents, not the name, identify a cell. Test images are the "
        "files' own where there are any",
        json_schema_extra={"label": True},
    )

    @model_validator(mode="after")
    def _one_output_is_no_class(self) -> Self:
        if self.loss == "softmax_cross_entropy" and self.labels == "parity":
            raise ValueError("softmax_cross_entropy needs one output for each class; set labels: classes, or loss: logistic for parity")
        return self

    @property
    def output_size(self) -> int:
        return 1 if self.labels == "parity" else 10

    @property
    def fingerprint(self) -> str:
        return "" if self.path is None else fingerprint(self.path)

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        self.check(architecture)
        train, digits, test, test_digits = self._split()
        if _reads_tokens(architecture):
            # Rows are tokens: the tokens axis comes second.
            train, test = train.transpose(0, 2, 1), test.transpose(0, 2, 1)
        kind: Labels = "signs" if self.labels == "parity" else "classes"
        split = Split(standardise(train, train), self._targets(digits), standardise(test, train), self._targets(test_digits))
        return data_problem(split, architecture, self.modes, "task digits", self.loss, kind)

    def check(self, architecture: Architecture) -> None:
        images = self._images()
        rows, columns = images.shape
        most = len(images.train) - (images.test is None)
        if self.samples > most:
            raise TaskError(f"task digits: samples = {self.samples}, but there are {len(images.train)} images; set it to {most} at most")
        image = (columns, rows) if _reads_tokens(architecture) else (rows, columns)
        if architecture.input_shape not in ((rows * columns,), image) or architecture.output_size != self.output_size:
            raise TaskError(
                f"task digits: images of {rows} x {columns} pixels and {_outputs(self.output_size)} do not fit architecture "
                f"{architecture.name}, which reads {architecture.input_shape} and has {architecture.output_size} output(s); set outputs: "
                f"{self.output_size} where it has that field, and inputs: {rows * columns} (mlp and the like), image: [{rows}, {columns}] "
                f"(cnn), or dimension: {columns} and tokens: {rows} (attention, rows as tokens)"
            )

    def _images(self) -> Images:
        return packaged() if self.path is None else read_images(self.path)

    def _split(self) -> tuple[Array, Array, Array, Array]:
        """Training images with their digits, and test images with theirs."""
        images = self._images()
        order = _shuffled(len(images.train))
        train, rest = order[: self.samples], order[self.samples :]
        if images.test is None:
            rest = rest if self.path is None else rest[:MOST_TEST]
            return images.train[train], images.digits[train], images.train[rest], images.digits[rest]
        assert images.test_digits is not None
        return images.train[train], images.digits[train], images.test[:MOST_TEST], images.test_digits[:MOST_TEST]

    def _targets(self, digits: Int[Array, "images"]) -> Float[Array, "images outputs"]:
        if self.labels == "parity":
            return np.where(digits[:, None] % 2 == 1, 1.0, -1.0)
        return np.where(digits[:, None] == np.arange(10), 1.0, -1.0 if self.loss == "logistic" else 0.0)


@lru_cache(maxsize=4)
def _shuffled(count: int) -> Int[Array, "count"]:
    return np.random.default_rng(SPLIT_SEED).permutation(count)


def _reads_tokens(architecture: Architecture) -> bool:
    return isinstance(architecture, QueryKey | MultiHead)


def _outputs(count: int) -> str:
    return "one output" if count == 1 else "ten outputs"
