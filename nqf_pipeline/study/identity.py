"""Canonical JSON and its hash: the same numbers give the same name, whatever the spelling.

Keys are sorted, floats printed in their shortest round-trip form, whole floats as integers (1 and 1.0 are one number, so are 0.0
and -0.0), and defaults are written out, so that changing a default renames cells instead of silently changing what an old name means.
A field added to a model later keeps old names alive by `json_schema_extra={"absent": value}`, value being what older cells did
implicitly: only that value, fixed independently of the default, is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

DIGITS = 16


def canonical(value: Any) -> Any:
    """Plain data with one form per meaning (see the module's text)."""
    if isinstance(value, BaseModel):
        return _canonical_model(value)
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@lru_cache(maxsize=1024)
def _canonical_model(model: BaseModel) -> dict[str, Any]:
    return {name: canonical(getattr(model, name)) for name in identifying_fields(model)}


def identifying_fields(model: BaseModel) -> Iterable[str]:
    """Names of the fields that affect numbers: all but those marked `label` and those at their `absent` value."""
    for name, field in type(model).model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        if not extra.get("label") and not ("absent" in extra and extra["absent"] == getattr(model, name)):
            yield name


def restore(kind: type[BaseModel], data: dict[str, Any]) -> dict[str, Any]:
    """Stored fields of a model, completed by the `absent` values of fields that were added to it later."""
    extras = {name: field.json_schema_extra for name, field in kind.model_fields.items()}
    return {**{name: extra["absent"] for name, extra in extras.items() if isinstance(extra, dict) and "absent" in extra}, **data}


def encode(value: Any) -> str:
    """Canonical JSON on one line."""
    return json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def around(model: BaseModel, field: str) -> tuple[str, str]:
    """The canonical JSON of a model before and after the value of one of its fields: `encode` for many values of that field."""
    fields = {name: encode(getattr(model, name)) for name in identifying_fields(model)}
    pairs = [(name, f'"{name}":{text}') for name, text in sorted(fields.items())]
    before = [text for name, text in pairs if name < field]
    after = [text for name, text in pairs if name > field]
    return "{" + "".join(f"{text}," for text in before) + f'"{field}":', "".join(f",{text}" for text in after) + "}"


def digest(value: Any, digits: int = DIGITS) -> str:
    """The first hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(encode(value).encode()).hexdigest()[:digits]


def entropy(value: Any) -> int:
    """All 256 bits of the hash, to seed a stream."""
    return int(hashlib.sha256(encode(value).encode()).hexdigest(), 16)
