"""Anyone's loss curve: read, cleaned, described. `read` gives the curves of a file, `describe` what one of them shows."""

from nqf_pipeline.analysis.curves.columns import Series
from nqf_pipeline.analysis.curves.describe import Description, describe
from nqf_pipeline.analysis.curves.reading import read
from nqf_pipeline.analysis.curves.table import CurveError, Note

__all__ = ["CurveError", "Description", "Note", "Series", "describe", "read"]
