"""The `claims` table of a study: every registered claim that names it, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.store.open import Study


def claim_rows(study: Study, claims: Sequence[Claim]) -> pd.DataFrame:
    """One row a claim. A claim that cannot be measured is a row too: not resolved, with the reason."""
    evidence = Evidence(study)
    return pd.DataFrame([row(claim, found_by(claim, evidence)) for claim in claims])


def found_by(claim: Claim, evidence: Evidence) -> Finding:
    """What a claim's measurement says about a study."""
    try:
        return claim.measure(evidence)
    except Unresolved as reason:
        return Finding.unresolved(str(reason))
    except Exception as error:  # noqa: BLE001  a mistake in one claim must not cost a study its other tables
        return Finding.unresolved(f"the measurement itself is broken: {type(error).__name__}: {error}")


def row(claim: Claim, found: Finding) -> dict[str, Any]:
    """A claim as a row of the table."""
    named = {"id": claim.id, "statement": claim.statement, "source": claim.source, "study": claim.study}
    return {**named, **asdict(found), "verdict": found.verdict}
