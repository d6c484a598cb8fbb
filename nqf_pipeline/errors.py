"""Errors that a user can act on. Each message says what is wrong, where, why it matters and the way out."""


class InputError(ValueError):
    """Bad input: commands print the message without a traceback and exit with code 2."""


class WorkError(RuntimeError):
    """The work itself failed: commands print the message and exit with code 1."""
