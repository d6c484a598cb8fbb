"""A user's own arrays, from a NumPy archive or a CSV table."""

from __future__ import annotations

import hashlib
import math
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from nqf_pipeline.forms.losses import Labels
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.arrays import Split, check_fit, data_problem, standardise
from nqf_pipeline.tasks.base import Labelled, Problem, TaskError
from nqf_pipeline.tasks.readers import existing, read_csv, read_npz

Array = Any
SPLIT_SEED = 20260813
"""The same samples are held out in every cell and study."""


class File(Labelled):
    """Arrays with samples first: .npz with x, y and optionally x_test, y_test; or .csv with named target columns."""

    shared_data: ClassVar[bool] = True
    shape_fields: ClassVar[frozenset[str]] = frozenset({"test_fraction"})

    kind: Literal["file"] = "file"
    path: str = Field(
        description="the .npz or .csv file, absolute or relative to the config file; its contents, not its name, identify a cell",
        json_schema_extra={"label": True},
    )
    target: tuple[str, ...] = Field(default=("y",), min_length=1, description="CSV: the target column(s); ignored for .npz")
    features: tuple[str, ...] = Field(default=(), description="CSV: the input columns; by default all that are not targets")
    test_fraction: float = Field(
        default=0.25, gt=0, lt=1, description="share of the samples held out for testing where the file has no x_test and y_test"
    )
    scale: Literal["standard", "none"] = Field(
        default="standard",
        description="`standard`: the training mean of every input entry and target is removed, and one standard deviation of all inputs "
        "and one of all targets divided out (labels of the other losses stay as they are); `none`: as they are",
    )
    modes: int = Field(default=4, ge=1, description="modes recorded at most")

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        split = self._split()
        check_fit(split, architecture, self._source)
        labels: dict[str, Labels] = {"logistic": "signs", "softmax_cross_entropy": "classes"}
        return data_problem(self._scaled(split), architecture, self.modes, self._source, self.loss, labels.get(self.loss))

    def check(self, architecture: Architecture) -> None:
        split = self._split()
        check_fit(split, architecture, self._source)
        self._scaled(split)

    @property
    def fingerprint(self) -> str:
        """Hash of the file's bytes: other contents are other data, whatever the name."""
        return hashlib.sha256(existing(self.path).read_bytes()).hexdigest()

    @property
    def _source(self) -> str:
        return f"task file, {self.path}"

    def _split(self) -> Split:
        path = existing(self.path)
        if path.suffix not in (".npz", ".csv"):
            raise TaskError(f"{self.path}: files of type `{path.suffix}` cannot be read; give a .npz or a .csv file")
        if path.suffix == ".csv":
            return self._hold_out(*read_csv(path, self.target, self.features))
        arrays = read_npz(path)
        x, y = self._pair(arrays["x"], arrays["y"], "x", "y")
        if "x_test" not in arrays:
            return self._hold_out(x, y)
        x_test, y_test = self._pair(arrays["x_test"], arrays["y_test"], "x_test", "y_test")
        for name, test, train in (("x_test", x_test, x), ("y_test", y_test, y)):
            if test.shape[1:] != train.shape[1:]:
                raise TaskError(
                    f"{self.path}, array `{name}`: a sample has shape {test.shape[1:]} but {train.shape[1:]} in training; make both alike"
                )
        return Split(x, y, x_test, y_test)

    def _pair(self, x: Array, y: Array, x_name: str, y_name: str) -> tuple[Array, Array]:
        """Inputs with at least one axis of entries and targets as a column each."""
        if len(x) != len(y):
            raise TaskError(
                f"{self.path}: `{x_name}` has {len(x)} samples and `{y_name}` has {len(y)}; samples are the first axis of both and must "
                f"agree (shapes {x.shape} and {y.shape})"
            )
        if y.ndim > 2:
            raise TaskError(f"{self.path}, array `{y_name}`: shape {y.shape} has too many axes; give (samples,) or (samples, outputs)")
        return x.reshape(len(x), *(x.shape[1:] or (1,))), y.reshape(len(y), -1)

    def _hold_out(self, x: Array, y: Array) -> Split:
        held = math.ceil(self.test_fraction * len(x))
        if len(x) - held < 2:
            raise TaskError(
                f"{self.path}: of {len(x)} sample(s), test_fraction = {self.test_fraction} leaves {len(x) - held} for training, and at "
                "least 2 are needed; give more samples or hold out fewer"
            )
        test, train = np.split(np.random.default_rng(SPLIT_SEED).permutation(len(x)), [held])
        return Split(x[train], y[train], x[test], y[test])

    def _scaled(self, split: Split) -> Split:
        if self.loss != "squared_error":
            self._check_labels(np.concatenate([split.y, split.y_test]))
        if self.scale == "none":
            return split
        for name, values in (("inputs", split.x), ("targets", split.y)):
            if not (values != values[:1]).any():
                raise TaskError(f"{self.path}: all training {name} are the same, so there is nothing to learn from them; check the file")
        x, x_test = standardise(split.x, split.x), standardise(split.x_test, split.x)
        if self.loss != "squared_error":
            return Split(x, split.y, x_test, split.y_test)
        return Split(x, standardise(split.y, split.y), x_test, standardise(split.y_test, split.y))

    def _check_labels(self, y: Array) -> None:
        """Raise TaskError unless targets are what the loss understands."""
        if self.loss == "logistic" and not np.isin(y, (-1.0, 1.0)).all():
            found = ", ".join(f"{value:g}" for value in np.unique(y)[:4])
            raise TaskError(f"{self.path}: loss logistic takes labels 1 and -1, and the targets hold {found}; recode them (0 becomes -1)")
        if self.loss == "softmax_cross_entropy" and (y.shape[1] < 2 or (y < 0).any() or not np.allclose(y.sum(1), 1)):
            raise TaskError(
                f"{self.path}: loss softmax_cross_entropy takes one target for each class (at least two), 1 for a sample's own class and 0 "
                f"for the others, or probabilities; the targets have {y.shape[1]} column(s) that do not add up to 1; write labels one-hot"
            )
