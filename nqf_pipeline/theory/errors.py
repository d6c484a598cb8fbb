"""What a prediction cannot do, said so that a user can act on it."""

from __future__ import annotations

from nqf_pipeline.errors import InputError


class TheoryError(InputError):
    """No prediction exists for this cell; the message says why and what to give instead."""
