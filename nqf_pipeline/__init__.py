"""Neural quadratic forms: networks beside their quadratic twins, when they learn, and what theory predicts.

>>> import nqf_pipeline as nqf
>>> study = nqf.open_study("results/default")  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nqf_pipeline.forms.normal_form import normal_form as normal_form
    from nqf_pipeline.store.open import open_study as open_study

_LAZY = {"open_study": "nqf_pipeline.store.open", "normal_form": "nqf_pipeline.forms.normal_form"}
"""Imported when first used: `import nqf_pipeline` costs nothing."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
