"""The page says in a line why a fault was not survived."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd

from tests.faults.ledger import Ledger, message
from tests.faults.page import page

LOG = """rkflow specific profile workflow/profiles/default
results/tiny: 2 of 5 cells have no finished shard. Way out: start the workflow again.
results/tiny/shards/ab.zarr.zip: the file is truncated. Way out: delete ab.zarr.zip and ab.json and start the workflow again.
[Mon Nov 30 12:00:00 2026] Finished jobid: 3 (Rule: merge)
"""


def test_reasons_can_be_read() -> None:
    book = Ledger("whole run")

    def not_healed() -> str:
        raise AssertionError(f"not healed by what it says: {message(LOG)}\n{LOG}")

    book.judge("a shard truncated", "shards", not_healed)
    book.judge("bit flipped", "shard", not_healed, seed=3)
    told = page(pd.DataFrame([asdict(fault) for fault in book.faults]), "2026-11-30").split("**Not survived**\n\n")[1]
    reason = "not healed by what it says: results/tiny/shards/ab.zarr.zip: the file is truncated. Way out: delete ab.zarr.zip"
    first, second = told.splitlines()
    assert first.startswith(f"- a shard truncated, shards: {reason}")
    assert second.startswith(f"- bit flipped, shard, seed 3: {reason}")


def test_long_reasons_end_between_words() -> None:
    faults = pd.DataFrame([{"part": "component", "kind": "k", "target": "t", "seed": None, "outcome": "", "problem": "word " * 200}])
    assert page(faults, "2026-11-30").endswith(" word ...\n")


def test_a_log_without_a_message_is_told_by_its_end() -> None:
    assert message("one\n two  words\n\n") == "two words"
    assert message("") == "nothing was said"
