"""Axes of a grid: every field of an architecture, task or optimizer also takes a list of values.

The list-accepting variant of a model is generated from the model itself, so that types, bounds, defaults and descriptions have one
source. A field that is a sequence by itself takes a list of lists for an axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import product
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationInfo, create_model, model_validator
from pydantic.fields import FieldInfo

from nqf_pipeline.study.errors import ConfigError

T = TypeVar("T")
DEFAULT = "default"


class Strict(BaseModel):
    """A block of the config. Unknown keys are errors; what would have been allowed is left in the validation context for the message."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _remember_keys(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(data, Mapping) and info.context is not None and not set(data) <= set(cls.model_fields):
            info.context.setdefault("allowed_keys", {})[id(data)] = sorted(cls.model_fields)
        return data


class Axes(Strict):
    """The generated variants' base: validated lists of values, and the models they span."""

    base: ClassVar[type[BaseModel]]

    @model_validator(mode="after")
    def _every_choice_is_valid(self) -> Axes:
        for architecture in self.named_architectures() or {DEFAULT}:
            for _ in self.choices(architecture):
                pass
        return self

    def named_architectures(self) -> set[str]:
        """Keys of mappings by architecture."""
        mappings = (value for value in self._given().values() if isinstance(value, dict))
        return {key for mapping in mappings for key in mapping}

    def choices(self, architecture: str = DEFAULT) -> Iterator[Any]:
        """All combinations of the listed values, as instances of `base`. Fields not given keep their defaults."""
        names, axes = [], []
        for name, value in self._given().items():
            names.append(name)
            axes.append(by_kind(value, architecture) if isinstance(value, dict) else value)
        for values in product(*axes):
            yield self.base.model_validate(dict(zip(names, values, strict=True)))

    def _given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
        return {name: [value] if name == "kind" else value for name, value in values.items()}


def by_kind(mapping: Mapping[str, T], *keys: str) -> T:
    """The entry of the first key present, else that of `default`."""
    for key in (*keys, DEFAULT):
        if key in mapping:
            return mapping[key]
    raise ConfigError(f"no value for {' or '.join(keys)}: add that key or `{DEFAULT}`")


def as_axis(value: Any, sequence: bool) -> Any:
    """A single value as a list of one; `sequence` marks fields whose single value is itself a list."""
    is_axis = isinstance(value, list) and (not sequence or any(isinstance(item, list) for item in value))
    return value if is_axis else [value]


def axis_of(single: Any, sequence: bool = False) -> Any:
    """The annotation `single or list of single`, validated into a list."""
    wrap = BeforeValidator(partial(as_axis, sequence=sequence), json_schema_input_type=single | list[single])
    return Annotated[list[single], Field(min_length=1), wrap]


def _shape(value: Any) -> str:
    return "by architecture" if isinstance(value, (dict, Mapping)) else "axis"


def by_architecture(axis: Any) -> Any:
    """The annotation `axis, or a mapping from kinds of architecture to axes`."""
    mapping = dict[str, axis]
    return Annotated[Annotated[axis, Tag("axis")] | Annotated[mapping, Tag("by architecture")], Discriminator(_shape)]


@cache
def axis_model(base: type[BaseModel], mapped: frozenset[str] = frozenset()) -> type[Axes]:
    """The list-accepting variant of `base`; fields in `mapped` also take a mapping by kind of architecture."""
    fields: dict[str, Any] = {}
    for name, field in base.model_fields.items():
        single = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        axis = single if name == "kind" else axis_of(single, is_sequence(field.annotation))
        info = Field(default=_default(name, field), description=field.description)
        fields[name] = (by_architecture(axis) if name in mapped else axis, info)
    model = create_model(f"{base.__name__}Axes", __base__=Axes, __doc__=base.__doc__, __module__=__name__, **fields)
    model.base = base
    return model


def _default(name: str, field: FieldInfo) -> Any:
    """The model's default as an axis. `choices` never reads it, since fields that are not given are left to the model."""
    if field.is_required():
        return ...
    if field.default_factory is not None:
        return []
    return field.default if name == "kind" else [field.default]


def is_sequence(annotation: Any) -> bool:
    """Whether one value of this type is itself a list (tuple[float, ...], list[int] or None, ...)."""
    if get_origin(annotation) in (Union, UnionType):
        return any(is_sequence(part) for part in get_args(annotation) if part is not NoneType)
    if get_origin(annotation) is Annotated:
        return is_sequence(get_args(annotation)[0])
    return (get_origin(annotation) or annotation) in (list, tuple)


def kinds_of(base: type[BaseModel]) -> tuple[str, ...]:
    """The values its `kind` may take."""
    annotation = base.model_fields["kind"].annotation
    return tuple(str(kind) for kind in get_args(annotation)) if get_origin(annotation) is Literal else ()
