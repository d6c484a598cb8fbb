"""From a config file to a validated study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nqf_pipeline.study.config import Study
from nqf_pipeline.study.document import Document, read_document
from nqf_pipeline.study.messages import config_error


def read_study(path: str | Path) -> Study:
    """The study in a YAML file. Raises ConfigError with every problem found."""
    return validate(read_document(path))


def study_from(data: Any, source: str = "config") -> Study:
    """The study in already parsed data, for example Snakemake's `config`; `source` is the file it came from, where there is one."""
    text = Path(source).read_text(encoding="utf-8") if Path(source).is_file() else None
    return validate(Document(data, source, text))


def validate(document: Document) -> Study:
    """A document as a study, or every problem in one ConfigError."""
    context: dict[str, Any] = {}
    try:
        return Study.model_validate(document.data, context=context).read_from(document)
    except ValidationError as error:
        raise config_error(document, error, context.get("allowed_keys", {})) from error
