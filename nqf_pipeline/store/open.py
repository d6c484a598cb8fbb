"""Opening a finished study: trajectories lazily, tables as data frames."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import xarray as xr

from nqf_pipeline.errors import InputError
from nqf_pipeline.store.merge import LISTING, STORE, MissingCellsError
from nqf_pipeline.store.schema import SCHEMA_VERSION, Status, validate
from nqf_pipeline.store.select import Curves, Nodes, curves_of, curves_of_groups, index_of, nodes_of
from nqf_pipeline.store.tables import read_table


class OpenError(InputError):
    """A folder is not a finished study of this version."""


@dataclass(frozen=True)
class Study:
    """A study's results. Trajectories are read when used, tables when first asked for."""

    path: Path
    arrays: xr.DataTree
    """One node per bucket (see docs/data_dictionary.md), arrays read from the files when indexed: the quick way to chosen cells."""

    def __repr__(self) -> str:
        cells = sum(int(node.sizes["cell"]) for node in self.arrays.children.values())
        return f"Study({str(self.path)!r}: {cells} cells in {len(self.arrays.children)} buckets)"

    @cached_property
    def trajectories(self) -> xr.DataTree:
        """The same with dask arrays, for work on whole buckets."""
        return xr.open_datatree(_store(self.path), engine="zarr", chunks={}, consolidated=True)

    @cached_property
    def index(self) -> pd.DataFrame:
        """One row a cell: its node, its position there, its coordinates."""
        return index_of(self._nodes)

    @cached_property
    def _nodes(self) -> Nodes:
        return nodes_of(self.arrays)

    def curves(self, rows: pd.DataFrame, *names: str) -> Iterator[Curves]:
        """The named variables of the cells in some rows of the index, in their order."""
        return curves_of(self._nodes, rows, *names)

    def curves_of_groups(self, groups: Iterable[pd.DataFrame], *names: str) -> Iterator[list[Curves]]:
        """The same for many groups of rows, several read at a time."""
        return curves_of_groups(self._nodes, groups, *names)

    @cached_property
    def exponents(self) -> pd.DataFrame:
        """Scaling exponents with windows, intervals and predictions."""
        return read_table(self.path, "exponents")

    @cached_property
    def window_scan(self) -> pd.DataFrame:
        """Exponents in every window of every setting."""
        return read_table(self.path, "window_scan")

    @cached_property
    def plateaus(self) -> pd.DataFrame:
        """Ignition times, measured and predicted, per mode and tier."""
        return read_table(self.path, "plateaus")

    @cached_property
    def drops(self) -> pd.DataFrame:
        """Drops of the loss curves, with the predicted modes that make them."""
        return read_table(self.path, "drops")

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Every cell with its coordinates and status."""
        return read_table(self.path, "cells")

    @cached_property
    def timings(self) -> pd.DataFrame:
        """Seconds by shard and stage."""
        return read_table(self.path, "timings")

    @cached_property
    def spectra(self) -> pd.DataFrame:
        """Growth rates and loss shares of the modes of every data set and architecture."""
        return read_table(self.path, "spectra")

    @cached_property
    def spectral_laws(self) -> pd.DataFrame:
        """Whether each spectrum has a power-law range, with exponents."""
        return read_table(self.path, "spectral_laws")

    @cached_property
    def extrapolation(self) -> pd.DataFrame:
        """Exponents carried to epsilon -> 0 and infinitely many modes."""
        return read_table(self.path, "extrapolation")

    @cached_property
    def tradeoffs(self) -> pd.DataFrame:
        """Exponents of compute-optimal splits between modes and time."""
        return read_table(self.path, "tradeoffs")

    @cached_property
    def collapse(self) -> pd.DataFrame:
        """How steps sharpen with ln(1/epsilon): widths, places, quality of the data collapse."""
        return read_table(self.path, "collapse")

    @cached_property
    def claims(self) -> pd.DataFrame:
        """Statements of the paper with the value measured here."""
        return read_table(self.path, "claims")


def open_study(path: str | Path, allow_partial: bool = False, verify: bool = False) -> Study:
    """Open `results/<study>`.

    Refuses a study with missing cells unless `allow_partial`; they then are rows of NaN with status `missing`. Sizes of all files are
    compared with the listing; `verify` compares their checksums too.
    """
    return Study(Path(path), open_trajectories(Path(path), allow_partial, verify))


def open_trajectories(path: Path, allow_partial: bool = False, verify: bool = False) -> xr.DataTree:
    """The trajectories alone, with the same checks. Arrays are read when indexed, without dask's graphs."""
    store = _store(path)
    _check_files(path, store, verify)
    try:
        tree = xr.open_datatree(store, engine="zarr", chunks=None, consolidated=True)
    except (OSError, ValueError, KeyError, json.JSONDecodeError) as error:
        raise OpenError(f"{store}: cannot be read as a zarr store ({_first_line(error)}). {_merge_again(path)}") from error
    _check_version(store, tree)
    _check_nodes(store, tree, allow_partial)
    return tree


def _store(path: Path) -> Path:
    store = path / STORE
    if store.is_dir():
        return store
    if not path.exists():
        raise OpenError(f"{path}: no such folder. Give the results folder of a study, for example results/default.")
    if (path / "zarr.json").exists():
        raise OpenError(f"{path}: this is a zarr store, not a results folder. Give the folder that holds it: {path.parent}.")
    if (path / LISTING).exists():
        raise OpenError(f"{store}: absent although {LISTING} lists its files. {_merge_again(path)}")
    if (path / "shards").is_dir():
        raise OpenError(f"{path}: its shards are not merged yet ({STORE} is absent). {_again(path)}")
    raise OpenError(f"{path}: not the results of a study: {STORE} is absent. Give a folder such as results/default.")


def _again(path: Path) -> str:
    return f"Start the workflow of {path} again: it merges the finished shards without training anything."


def _merge_again(path: Path) -> str:
    """The workflow merges when the listing is absent."""
    return f"Delete {path / LISTING}. {_again(path)}"


def _check_files(path: Path, store: Path, verify: bool) -> None:
    try:
        listing = json.loads((path / LISTING).read_text(encoding="utf-8"))
        version, files = listing["schema_version"], listing["files"]
    except FileNotFoundError:
        raise OpenError(f"{path}: {LISTING} is absent, so the merge was not finished. {_again(path)}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError):
        raise OpenError(f"{path / LISTING}: damaged. {_merge_again(path)}") from None
    _compare_versions(store, version)
    for name, (size, checksum) in files.items():
        file = store / name
        if not file.is_file():
            raise OpenError(f"{file}: absent although {LISTING} lists it. {_merge_again(path)}")
        if file.stat().st_size != size:
            raise OpenError(f"{file}: truncated or replaced: {file.stat().st_size} bytes, {size} expected. {_merge_again(path)}")
        # The metadata of all arrays are in one file, and unlike arrays it holds no checksums of its own.
        if (verify or name == "zarr.json") and hashlib.sha256(file.read_bytes()).hexdigest() != checksum:
            raise OpenError(f"{file}: damaged, its checksum is not the listed one. {_merge_again(path)}")


def _compare_versions(store: Path, version: object) -> None:
    if version == SCHEMA_VERSION:
        return
    if isinstance(version, int) and version < SCHEMA_VERSION:
        raise OpenError(
            f"{store}: written with schema version {version}, this program reads version {SCHEMA_VERSION}. Older stores are not converted: "
            "run the study again into a new folder, or open this one with the version of nqf_pipeline named in its attributes."
        )
    if isinstance(version, int):
        raise OpenError(
            f"{store}: written with schema version {version} by a newer program; this one reads version {SCHEMA_VERSION}. "
            "Update nqf_pipeline."
        )
    raise OpenError(f"{store}: has no schema version, so nqf_pipeline did not write it. Give the results folder of a study.")


def _check_version(store: Path, tree: xr.DataTree) -> None:
    _compare_versions(store, tree.attrs.get("schema_version"))


def _check_nodes(store: Path, tree: xr.DataTree, allow_partial: bool) -> None:
    missing: list[str] = []
    for name, node in tree.children.items():
        dataset = node.to_dataset()
        validate(dataset, "store", f"{store}/{name}")
        absent = dataset["status"].to_numpy() == Status.missing
        missing += [str(cell) for cell in dataset["cell"].to_numpy()[absent]]
    if missing and not allow_partial:
        raise MissingCellsError(
            f"{store}: {len(missing)} cells have status `missing`, first {', '.join(missing[:5])}. {Status.missing.remedy} "
            "To work with what there is: open_study(path, allow_partial=True)."
        )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
