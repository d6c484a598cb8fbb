"""From a config file to a validated study, and back to what is stored beside its results."""

from __future__ import annotations

import os
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


def as_stored(study: Study, folder: Path) -> dict[str, Any]:
    """The config as the jobs read it: paths of data and module files count from the file that they stand in, now in `folder`."""
    data = study.as_given()
    for experiment in data["experiments"].values():
        for part in (*experiment["tasks"], *experiment["architectures"]):
            if part.get("path"):
                paths = [part["path"]] if isinstance(part["path"], str) else part["path"]
                part["path"] = [_from(folder, study.document.folder, Path(path).expanduser()) for path in paths]
    return data


def _from(folder: Path, old: Path, path: Path) -> str:
    return str(path) if path.is_absolute() else os.path.relpath(old / path, folder)
