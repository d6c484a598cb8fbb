"""The schema describes the dataset once; the document is rendered from it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nqf_pipeline.store.schema import ENTRIES, KINDS, data_dictionary, empty, mismatches, normalise
from nqf_pipeline.store.tables import table_dictionary
from tests.store.datasets import theory, training

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("file", "module", "current"), [("data_dictionary", "schema", data_dictionary), ("tables", "tables", table_dictionary)]
)
def test_documents_are_current(file: str, module: str, current: Callable[[], str]) -> None:
    document = (ROOT / f"docs/{file}.md").read_text(encoding="utf-8")
    assert document == current(), f"stale: python -m nqf_pipeline.store.{module} > docs/{file}.md"


def test_every_entry_belongs_somewhere_and_its_fill_fits_its_dtype() -> None:
    for entry in ENTRIES.values():
        assert entry.kinds <= set(KINDS)
        assert entry.kinds
        assert empty(entry, (2,)).shape == (2,)


def test_normalised_datasets_have_no_mismatch(cells: list[str]) -> None:
    assert mismatches(normalise(training(cells, dtype="float32")), "training") == []
    assert mismatches(normalise(theory(cells)), "theory") == []


def test_swept_quantities_are_accepted_on_cells_only(cells: list[str]) -> None:
    dataset = normalise(training(cells)).assign_coords(alpha1=("cell", np.ones(4)))
    assert mismatches(dataset, "training") == []
    wrong = dataset.assign(alpha2=(("cell", "mode"), np.ones((4, 2))))
    assert [found.where for found in mismatches(wrong, "training")] == ["alpha2"]


def test_wrong_dims_and_misplaced_variables(cells: list[str]) -> None:
    dataset = normalise(training(cells))
    dataset["theory_loss"] = dataset["network_loss"].expand_dims(tier=1)
    dataset["divergence"] = dataset["divergence"].isel(step=0, drop=True)
    found = {(m.where, m.what) for m in mismatches(dataset, "training")}
    assert ("theory_loss", "does not belong in a training dataset") in found
    assert ("divergence", "has the wrong dims") in found


def test_a_cell_named_twice_is_found(cells: list[str]) -> None:
    found = mismatches(normalise(training([*cells, cells[0]])), "training")
    assert [m.what for m in found] == ["names a cell twice"]


@pytest.mark.parametrize("module", ["store.schema", "store.shards", "store.merge", "store.open", "store.query", "store.tables"])
def test_the_store_never_imports_jax(module: str) -> None:
    code = f"import sys, nqf_pipeline.{module}; assert 'jax._src' not in sys.modules, 'jax was imported'"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
