"""All claims: every module of `subjects/` has a tuple `CLAIMS`, and they are joined here in the order of the modules' names."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from nqf_pipeline.analysis.claims import subjects
from nqf_pipeline.analysis.claims.claim import Claim


@cache
def registry() -> tuple[Claim, ...]:
    """Every registered claim. Raises ValueError where two have one id."""
    names = sorted(module.name for module in pkgutil.iter_modules(subjects.__path__))
    claims = tuple(claim for name in names for claim in importlib.import_module(f"{subjects.__name__}.{name}").CLAIMS)
    ids = [claim.id for claim in claims]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"claims registered twice: {', '.join(twice)}")
    return claims


def claims_about(study: str) -> list[Claim]:
    """The claims that a study of this name measures."""
    return [claim for claim in registry() if claim.study == study]
