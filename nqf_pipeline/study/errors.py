"""The error of the study layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from nqf_pipeline.errors import InputError


class ConfigError(InputError):
    """A study asks for something impossible; the message names the file, the key, the value and what is allowed."""


def raise_all(title: str, problems: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
    """Raise every (key path, message) from inside a validator, so that each is reported at its own key."""
    details = [
        InitErrorDetails(type=PydanticCustomError("study", "{message}", {"message": message}), loc=place, input=None)
        for place, message in problems
    ]
    if details:
        raise ValidationError.from_exception_data(title, details)


def fails(check: Any, *args: Any) -> str | None:
    """The message of the InputError that a check raises, or None."""
    try:
        check(*args)
    except InputError as error:
        return str(error)
    return None
