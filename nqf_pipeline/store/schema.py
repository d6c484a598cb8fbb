"""The trajectory dataset, described once.

Everything that is known about a variable (dims, dtype, units, meaning) stands in `VARIABLES` and
`COORDINATES`; writing, merging and opening check against these tables, and the data dictionary is
rendered from them: `python -m nqf_pipeline.store.schema` prints it as markdown.

A dataset has one of three kinds:

- `training`: one shard of one bucket, written by the job that trained its cells;
- `theory`: predictions for some cells of one bucket, written the same way;
- `store`: one node of the merged `trajectories.zarr`, with the coordinates of each cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from typing import Any, Literal

import numpy as np
import xarray as xr

from nqf_pipeline.errors import InputError

SCHEMA_VERSION = 1
Kind = Literal["training", "theory", "store"]
KINDS: tuple[Kind, ...] = ("training", "theory", "store")
LOSS_CONVENTION = "mean over samples of the sum over outputs; squared error unless the task names another loss"
TIERS = ("asymptote", "event", "flow", "discrete")
"""Tiers that predict without training anything, coarsest first; `discrete` is the finest."""


class Status(IntEnum):
    """What became of a cell."""

    missing = 0
    done = 1
    diverged = 2
    timed_out = 3
    killed = 4
    not_predicted = 5

    @property
    def has_numbers(self) -> bool:
        """Whether there are numbers of the cell."""
        return self in (Status.done, Status.diverged)

    @property
    def remedy(self) -> str:
        return REMEDIES[self]


REMEDIES = {
    Status.missing: "The cell has not run: start the workflow again; finished shards are kept.",
    Status.done: "Nothing to do.",
    Status.diverged: "Training left the finite numbers at `diverged_step`: lower the learning rate (a mode of rate r needs eta r < 2).",
    Status.not_predicted: "Nothing is trained for this cell, and no tier of theory predicts it: give its experiment `train: twin`.",
    Status.timed_out: "The job met `engine.limit_hours`: raise it (or lower `steps`), then `nqf retry` and start the workflow again.",
    Status.killed: "Jobs were ended from outside (memory, signal, power): give more memory, then `nqf retry` and start the workflow again.",
}


@dataclass(frozen=True)
class Entry:
    """One variable or coordinate of the dataset."""

    name: str
    dims: tuple[str, ...]
    dtype: str
    """`float64`, `int64`, `int8` or `string`."""
    units: str
    meaning: str
    required: frozenset[Kind]
    optional: frozenset[Kind] = frozenset()
    fill: float | int | str = float("nan")
    """Value where there is nothing: a missing cell, or a tier that does not apply."""

    @property
    def kinds(self) -> frozenset[Kind]:
        return self.required | self.optional


def _kinds(*names: Kind) -> frozenset[Kind]:
    return frozenset(names)


TRAINED, PREDICTED, ANY = _kinds("training", "store"), _kinds("theory"), _kinds(*KINDS)
CURVE, MODES = ("cell", "step"), ("cell", "step", "mode")

VARIABLES: tuple[Entry, ...] = (
    Entry("network_loss", CURVE, "float64", "loss", "training loss of the network", TRAINED),
    Entry("twin_loss", CURVE, "float64", "loss", "training loss of the twin: same start, same batches", TRAINED),
    Entry("network_test_loss", CURVE, "float64", "loss", "loss of the network on test samples", _kinds(), TRAINED),
    Entry("twin_test_loss", CURVE, "float64", "loss", "loss of the twin on test samples", _kinds(), TRAINED),
    Entry("network_test_accuracy", CURVE, "float64", "1", "share of test labels that the network's outputs name", _kinds(), TRAINED),
    Entry("twin_test_accuracy", CURVE, "float64", "1", "share of test labels that the twin's outputs name", _kinds(), TRAINED),
    Entry("divergence", CURVE, "float64", "1", "rms(f_network - f_twin) / rms(y - f(0)), training samples", TRAINED),
    Entry(
        "network_gradients",
        CURVE,
        "float64",
        "1",
        "steps so far that computed the network's gradient (`gradient_error` above 0)",
        _kinds(),
        TRAINED,
    ),
    Entry(
        "gradient_gap",
        CURVE,
        "float64",
        "1",
        "largest error found so far of a gradient carried on between these, relative to the gradient",
        _kinds(),
        TRAINED,
    ),
    Entry("network_mode", MODES, "float64", "1", "recovered strength of a mode in the network, 1 when learnt (squared error)", TRAINED),
    Entry("twin_mode", MODES, "float64", "1", "recovered strength of a mode in the twin, 1 when learnt", TRAINED),
    Entry(
        "order_parameter",
        MODES,
        "float64",
        "weight^2",
        "z_k = |p_k|^2, squared length of a mode in unit space (network; twin if alone)",
        TRAINED,
    ),
    Entry("twin_kernel_change", CURVE, "float64", "1", "|K - K(0)| / |K(0)| (Frobenius) of the twin's tangent kernel K", _kinds(), TRAINED),
    Entry("twin_kernel_turn", CURVE, "float64", "1", "1 - <K, K(0)> / (|K| |K(0)|), 0 in lazy training", _kinds(), TRAINED),
    Entry("step_number", CURVE, "int64", "step", "optimizer steps made at each record; record 0 is the start", TRAINED, PREDICTED, -1),
    Entry(
        "time", CURVE, "float64", "gradient-flow time", "integral of the learning rate over the steps, / (1 - momentum)", TRAINED, PREDICTED
    ),
    Entry("mode_number", ("cell", "mode"), "int64", "1", "number of the watched mode, 1 the strongest", TRAINED, PREDICTED, -1),
    Entry("mode_target", ("cell", "mode"), "float64", "target", "singular value or coefficient the mode recovers", TRAINED, PREDICTED),
    Entry("status", ("cell",), "int8", "1", "what became of the cell (see the status table)", TRAINED, PREDICTED, int(Status.missing)),
    Entry("diverged_step", ("cell",), "int64", "step", "first recorded step that is not finite; -1: none", TRAINED, PREDICTED, -1),
    Entry("theory_loss", ("tier", *CURVE), "float64", "loss", "predicted training loss", PREDICTED, _kinds("store")),
    Entry("theory_mode", ("tier", *MODES), "float64", "1", "predicted strength of a mode", PREDICTED, _kinds("store")),
    Entry(
        "expected_loss",
        CURVE,
        "float64",
        "loss",
        "predicted training loss, averaged over seeds: from spectrum, initial profile and epsilon alone (gradient flow)",
        _kinds(),
        PREDICTED | _kinds("store"),
    ),
    Entry(
        "missing_tail",
        CURVE,
        "float64",
        "loss",
        "predicted loss of the modes beyond the finite number of a power-law ensemble; added to a loss it lifts their bias",
        _kinds(),
        PREDICTED | _kinds("store"),
    ),
    Entry(
        "theory_ignition",
        ("tier", "cell", "mode"),
        "float64",
        "step",
        "predicted step at which the strength reaches rho; inf: never; NaN: no statement",
        PREDICTED,
        _kinds("store"),
    ),
    Entry(
        "ignition_low",
        ("cell", "mode"),
        "float64",
        "step",
        "5 % quantile of the ignition step over draws of the weights; NaN: not known",
        _kinds(),
        PREDICTED | _kinds("store"),
    ),
    Entry(
        "ignition_high",
        ("cell", "mode"),
        "float64",
        "step",
        "95 % quantile of the ignition step over draws of the weights; NaN: not known",
        _kinds(),
        PREDICTED | _kinds("store"),
    ),
    Entry("loss_floor", ("cell",), "float64", "loss", "loss that no quadratic form goes below; NaN unless squared error", _kinds(), ANY),
    Entry("timing_error", ("cell",), "float64", "1", "error of ignition times that the regime's defect lets expect", _kinds(), ANY),
    Entry("exponent_limit", ("cell",), "float64", "1", "scaling exponent for epsilon -> 0 and infinitely many modes", _kinds(), ANY),
)

COORDINATES: tuple[Entry, ...] = (
    Entry("cell", ("cell",), "string", "", "identity of the cell: 16 hexadecimal characters", ANY),
    Entry("tier", ("tier",), "string", "", "tier of theory: " + ", ".join(TIERS), PREDICTED, _kinds("store")),
    Entry("experiment", ("cell",), "string", "", "part of the study that asked for the cell", _kinds(), ANY, ""),
    Entry("architecture", ("cell",), "string", "", "kind of network", _kinds("store"), ANY, ""),
    Entry("task", ("cell",), "string", "", "kind of task", _kinds("store"), ANY, ""),
    Entry("optimizer", ("cell",), "string", "", "kind of optimizer", _kinds("store"), ANY, ""),
    Entry("sigma", ("cell",), "float64", "weight", "standard deviation of the initial weights", _kinds("store"), ANY),
    Entry("epsilon", ("cell",), "float64", "weight^2", "degrees * sigma^2: scale of the initial order parameter", _kinds("store"), ANY),
    Entry("seed", ("cell",), "int64", "1", "seed of data, initial weights and batches", _kinds("store"), ANY, -1),
    Entry("regime", ("cell",), "string", "", "solution that data and structure admit, as measured", PREDICTED, _kinds("store"), ""),
    Entry("standing", ("cell",), "string", "", "what the prediction is: exact, local, conditional, ...", PREDICTED, _kinds("store"), ""),
)
"""Named coordinates. Every further quantity that a study sweeps is one more coordinate on `cell` (string, integer or float)."""

SCALARS = ("status", "diverged_step", "loss_floor", "exponent_limit", "timing_error")
"""Variables of one number a cell: coordinates in memory, so that a selection of cells keeps them."""
ENTRIES: dict[str, Entry] = {entry.name: entry for entry in (*COORDINATES, *VARIABLES)}


def attributes(entry: Entry) -> dict[str, Any]:
    """CF-style attributes, strict JSON."""
    values: dict[str, Any] = {"long_name": entry.meaning}
    if entry.units:
        values["units"] = entry.units
    if entry.name == "status":
        values["flag_values"] = [int(status) for status in Status]
        values["flag_meanings"] = " ".join(status.name for status in Status)
    return values


def empty(entry: Entry, shape: tuple[int, ...]) -> np.ndarray:
    """An array of nothing but the fill value."""
    dtype = object if entry.dtype == "string" else entry.dtype
    fill = "" if entry.dtype == "string" else entry.fill
    return np.full(shape, fill, dtype)


# ---- checks


@dataclass(frozen=True)
class Mismatch:
    """One way in which a dataset differs from the schema."""

    where: str
    what: str
    expected: str
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"  {self.where}: {self.what}\n    expected: {self.expected}\n    found:    {self.found}\n    way out:  {self.remedy}"


class SchemaError(InputError):
    """A dataset is not what the schema says; lists every mismatch."""

    def __init__(self, place: str, mismatches: list[Mismatch]) -> None:
        self.mismatches = mismatches
        listing = "\n".join(str(mismatch) for mismatch in mismatches)
        super().__init__(f"{place} does not follow the dataset schema (version {SCHEMA_VERSION}):\n{listing}")


def _dtype_name(array: xr.DataArray) -> str:
    return "string" if array.dtype.kind in "OUT" else str(array.dtype)


def _absent(dataset: xr.Dataset, kind: Kind) -> Iterator[Mismatch]:
    for entry in ENTRIES.values():
        if kind in entry.required and entry.name not in dataset.variables:
            yield Mismatch(entry.name, "is absent", f"{entry.dtype} {entry.dims}", "nothing", f"write `{entry.name}`: {entry.meaning}")


def _undeclared(name: str, array: xr.DataArray, kind: Kind) -> Iterator[Mismatch]:
    if array.dims == ("cell",) and _dtype_name(array) in {"string", "float64", "int64", "bool"}:
        return  # a swept quantity
    near = get_close_matches(name, [entry.name for entry in ENTRIES.values() if kind in entry.kinds], n=1)
    hint = f"did you mean `{near[0]}`?" if near else "declare it in nqf_pipeline/store/schema.py or leave it out"
    yield Mismatch(name, "is not in the schema", "a declared variable, or one value a cell", f"{_dtype_name(array)} {array.dims}", hint)


def _declared(entry: Entry, array: xr.DataArray, kind: Kind) -> Iterator[Mismatch]:
    if kind not in entry.kinds:
        places = " and ".join(sorted(entry.kinds))
        yield Mismatch(entry.name, f"does not belong in a {kind} dataset", f"only in {places}", "present", f"drop `{entry.name}`")
    if array.dims != entry.dims:
        yield Mismatch(entry.name, "has the wrong dims", str(entry.dims), str(array.dims), "transpose or broadcast it")
    if _dtype_name(array) != entry.dtype:
        yield Mismatch(entry.name, "has the wrong dtype", entry.dtype, _dtype_name(array), f"convert it to {entry.dtype}")


def _values(dataset: xr.Dataset) -> Iterator[Mismatch]:
    """Checks that need the values of small coordinates only."""
    cells = Counter(str(cell) for cell in dataset["cell"].to_numpy()) if "cell" in dataset.coords else Counter()
    twice = [cell for cell, count in cells.items() if count > 1]
    if twice:
        yield Mismatch("cell", "names a cell twice", "each cell once", ", ".join(twice[:3]), "write each cell once")
    for tier in dataset["tier"].values if "tier" in dataset.coords else ():
        if tier not in TIERS:
            yield Mismatch("tier", "is unknown", ", ".join(TIERS), str(tier), "use a declared tier")
    if "status" in dataset.variables and dataset["status"].dtype.kind in "iu":
        known = {int(status) for status in Status}
        for value in sorted(set(np.unique(dataset["status"].values).tolist()) - known):
            names = ", ".join(f"{status.value} {status.name}" for status in Status)
            yield Mismatch("status", "has an unknown value", names, str(value), "use the Status enum")


def mismatches(dataset: xr.Dataset, kind: Kind) -> list[Mismatch]:
    """Every difference between a dataset and the schema; reads no large variable."""
    found = list(_absent(dataset, kind))
    for name, array in dataset.variables.items():
        entry = ENTRIES.get(str(name))
        wrapped = dataset[name] if entry is None else xr.DataArray(array)
        found.extend(_undeclared(str(name), wrapped, kind) if entry is None else _declared(entry, wrapped, kind))
    return found + list(_values(dataset))


def validate(dataset: xr.Dataset, kind: Kind, place: str) -> None:
    """Raise SchemaError with every mismatch, naming the file or node it was found in."""
    found = mismatches(dataset, kind)
    if found:
        raise SchemaError(place, found)


# ---- the form in which datasets are written


def _conform(entry: Entry, array: xr.Variable, sizes: dict[str, int]) -> xr.Variable:
    """Broadcast over missing dims, put dims in order, widen the dtype; leave anything else for `validate` to report."""
    if set(array.dims) < set(entry.dims) and all(dim in sizes for dim in entry.dims):
        array = array.set_dims({dim: sizes[dim] for dim in entry.dims})
    if set(array.dims) == set(entry.dims):
        array = array.transpose(*entry.dims)
    if entry.dtype == "string":
        return _as(array, object)
    if array.dtype.kind in "biuf" and (np.can_cast(array.dtype, entry.dtype, "safe") or _both_integers(array, entry)):
        return _as(array, entry.dtype)
    return array


def _as(array: xr.Variable, dtype: Any) -> xr.Variable:
    """NumPy's conversion: xarray's own takes milliseconds an array."""
    return xr.Variable(array.dims, array.values.astype(dtype, copy=False), array.attrs)


def _both_integers(array: xr.Variable, entry: Entry) -> bool:
    return array.dtype.kind in "iu" and np.dtype(entry.dtype).kind == "i"


def normalise(dataset: xr.Dataset) -> xr.Dataset:
    """The canonical form: declared order, dims and dtypes, attributes attached, no leftover encoding."""
    sizes = {str(dim): int(size) for dim, size in dataset.sizes.items()}
    declared = [name for name in ENTRIES if name in dataset.variables]
    swept = sorted(str(name) for name in dataset.variables if name not in ENTRIES)
    arrays = {}
    for name in (*declared, *swept):
        array = dataset.variables[name]
        entry = ENTRIES.get(name)
        if entry is not None:
            array = _conform(entry, array, sizes)
        elif array.dtype.kind in "OUT":
            array = _as(array, object)
        arrays[name] = xr.Variable(array.dims, array.values, attributes(entry) if entry else dict(array.attrs))
    coordinates = [name for name in arrays if name not in ENTRIES or name in SCALARS or ENTRIES[name] in COORDINATES]
    return xr.Dataset(arrays, attrs=dict(dataset.attrs)).set_coords([name for name in coordinates if name in arrays])


# ---- the data dictionary


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _row(entry: Entry) -> tuple[str, ...]:
    dims = ", ".join(entry.dims)
    presence = "always" if "store" in entry.required else "where it applies"
    return f"`{entry.name}`", dims, entry.dtype, entry.units or "-", presence, entry.meaning


def data_dictionary() -> str:
    """The dataset in markdown, from the tables above."""
    header = ("name", "dims", "dtype", "units", "present", "meaning")
    statuses = [(str(status.value), f"`{status.name}`", status.remedy) for status in Status]
    parts = [
        f"Dataset schema version {SCHEMA_VERSION}. Loss convention: {LOSS_CONVENTION}.",
        "One node of `trajectories.zarr` is one bucket: cells with the same array shapes and program.",
        "**Coordinates.** Every further swept quantity is one more coordinate on `cell`.",
        _table(header, [_row(entry) for entry in COORDINATES]),
        "**Variables.**",
        _table(header, [_row(entry) for entry in VARIABLES]),
        "**Status of a cell.**",
        _table(("value", "name", "what to do"), statuses),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(data_dictionary(), end="")
