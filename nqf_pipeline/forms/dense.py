"""Dense matrices that would not fit in memory are refused with a way out, not met as a crash."""

from __future__ import annotations

from nqf_pipeline.errors import InputError

LARGEST = 2**31
"""Bytes of one dense array beyond which it is refused."""


def refuse_huge(what: str, elements: int, remedy: str) -> None:
    """Raise InputError when `elements` float64 numbers are more than 2 GiB."""
    size = 8 * elements
    if size > LARGEST:
        raise InputError(f"{what} would take {size / 2**30:.3g} GiB, more than the {LARGEST / 2**30:g} GiB allowed; {remedy}")
