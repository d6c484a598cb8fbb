"""YAML with positions: the data of a config file, and the line where each key stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nqf_pipeline.study.errors import ConfigError

Key = str | int


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """Safe YAML that also reads 1e-3 as a number and refuses a key given twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: dict[Any, Any] = {}
        for key, _ in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                problem = f"key `{key.value}` is given twice, first in line {seen[key.value].line + 1}: keep one"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen[key.value] = key.start_mark
        return dict(super().construct_mapping(node, deep))


_FLOAT = re.compile(
    r"^[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)[eE][-+]?[0-9]+|[0-9]+\.[0-9]*|\.[0-9]+|\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_Loader.yaml_implicit_resolvers = {
    first: [item for item in items if item[0] != "tag:yaml.org,2002:float"] for first, items in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


@dataclass(frozen=True)
class Document:
    """Parsed data with what an error message needs: the file's name and its lines."""

    data: Any
    source: str
    text: str | None = None

    @property
    def folder(self) -> Path:
        """Where relative paths in the file start."""
        return Path(self.source).parent

    def line(self, path: Sequence[Key]) -> int | None:
        """The line (from 1) of the deepest part of `path` that the file has."""
        if self.text is None:
            return None
        node, mark = yaml.compose(self.text, _Loader), None
        for key in path:
            step = _child(node, key)
            if step is None:
                break
            mark, node = step
        return None if mark is None else int(mark.line) + 1


def _child(node: Any, key: Key) -> tuple[Any, Any] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((name.start_mark, value) for name, value in node.value if name.value == str(key)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key].start_mark, node.value[key]
    return None


def read_document(path: str | Path) -> Document:
    """Read a YAML file. Raises ConfigError that names file and line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the config file ({error.strerror or error}): check the path") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file in UTF-8 ({error}): a config is YAML text") from error
    try:
        data = yaml.load(text, _Loader)  # a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        raise ConfigError(f"{path}, {where}: not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    return Document(data, str(path), text)
