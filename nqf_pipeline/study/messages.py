"""Validation errors in the user's words: file, line, key path, value, what is allowed, nearest spelling."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from nqf_pipeline.study.config import NAME, SIZE
from nqf_pipeline.study.document import Document, Key
from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.study.spelling import nearest, no_such

ABSENT = object()
_PHRASES = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping (keys and values)",
    "model_type": "must be a mapping (keys and values)",
    "model_attributes_type": "must be a mapping (keys and values)",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "too_short": "must have at least {min_length} item(s): with none the grid is empty",
    "too_long": "must have at most {max_length} item(s)",
}
_PATTERNS = {
    NAME: "must be lower-case letters, digits, `-` and `_`, the first a letter or digit",
    SIZE: "must be a number with a unit, such as 4GB or 500 MiB",
}


def config_error(document: Document, error: ValidationError, allowed_keys: Mapping[int, list[str]]) -> ConfigError:
    """All problems of a config as one error, in the order of the file's keys."""
    found: dict[tuple[Key, ...], list[str]] = {}
    for detail in error.errors(include_url=False):
        place = path_in(document.data, detail["loc"], absent_key=detail["type"] == "missing")
        if detail["type"] == "union_tag_invalid":
            place.append(detail["ctx"]["discriminator"].strip("'"))
        messages = found.setdefault(tuple(place), [])
        if detail["type"] == "literal_error" and messages:  # a key that takes numbers, say, or a word
            messages[-1] += f" or {_words(detail)}"
        else:
            messages.append(_message(document.data, place, detail, allowed_keys))
    return listing(document, [describe(document, place, message) for place, messages in found.items() for message in messages])


def listing(document: Document, lines: Sequence[str]) -> ConfigError:
    """One error for several lines; repeated lines are given once."""
    unique = list(dict.fromkeys(lines))
    count = "1 error" if len(unique) == 1 else f"{len(unique)} errors"
    return ConfigError("\n".join([f"{document.source}: {count}", *(f"  {line}" for line in unique)]))


def describe(document: Document, place: Sequence[Key], message: str) -> str:
    """`line 12: experiments.tracks.sigma[0] = -1: must be greater than 0`."""
    line = document.line(place)
    value = at(document.data, place)
    shown = "" if value is ABSENT or isinstance(value, (dict, list)) else f" = {value!r}"
    head = f"line {line}: " if line else ""
    return f"{head}{spell(place) or 'the file'}{shown}: {message}"


def spell(place: Sequence[Key]) -> str:
    """experiments.tracks.optimizers[1].learning_rate."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).lstrip(".")


def at(data: Any, place: Sequence[Key]) -> Any:
    """The value at a path, or ABSENT."""
    for key in place:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return data


def path_in(data: Any, location: Sequence[Key], absent_key: bool = False) -> list[Key]:
    """A validator's location as a path in the file: tags of unions and positions inside a single value are left out."""
    place: list[Key] = []
    for position, key in enumerate(location):
        inside = (isinstance(data, Mapping) and key in data) or (isinstance(data, list) and isinstance(key, int) and key < len(data))
        if inside:
            data = data[key]
            place.append(key)
        elif absent_key and position == len(location) - 1:
            place.append(key)
    return place


def _message(data: Any, place: list[Key], detail: Any, allowed_keys: Mapping[int, list[str]]) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return no_such("key", str(place[-1]), allowed_keys.get(id(at(data, place[:-1])), []))
    if kind == "missing":
        return "is required"
    if kind == "union_tag_not_found":
        return f"needs the key {context['discriminator']}"
    if kind in ("union_tag_invalid", "literal_error"):
        return _choice(context.get("expected_tags") or context["expected"], str(context.get("tag", detail["input"])))
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"must match {context['pattern']}")
    template = _PHRASES.get(kind)
    return template.format(**{name: _plain(value) for name, value in context.items()}) if template else detail["msg"]


def _plain(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value


def _words(detail: Any) -> str:
    names = _names(detail["ctx"]["expected"])
    return f"one of {', '.join(names)}" if len(names) > 1 else f"`{names[0]}`"


def _names(expected: str) -> list[str]:
    return re.findall(r"'([^']*)'", expected)


def _choice(expected: str, given: str) -> str:
    names = _names(expected)
    return f"`{given}` is not one of {', '.join(names)}{nearest(given, names)}"
