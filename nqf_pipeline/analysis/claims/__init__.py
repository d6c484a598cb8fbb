"""The claims ledger: what the paper says, beside what is measured here, with one rule for the verdict."""

from __future__ import annotations

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import Estimate, exactly, mean_of, median_of, share_of, span_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.windows import Unresolved

__all__ = ["Claim", "Estimate", "Evidence", "Finding", "Unresolved", "exactly", "mean_of", "median_of", "share_of", "span_of"]
