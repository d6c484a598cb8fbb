"""The error of the study layer."""

from nqf_pipeline.errors import InputError


class ConfigError(InputError):
    """A study asks for something impossible; the message names the file, the key, the value and what is allowed."""
