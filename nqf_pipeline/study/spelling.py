"""The nearest valid spelling of a wrong name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?`, or nothing when no known name is close."""
    match = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean `{match[0]}`?" if match else ""


def no_such(what: str, name: str, known: Iterable[str]) -> str:
    """`unknown key ...`, with what is allowed and the nearest spelling."""
    names = list(known)
    return f"unknown {what} `{name}` (allowed: {', '.join(names)}){nearest(name, names)}"
