"""The discrete tier: modes advanced by the optimizer's exact steps, many cells at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.theory.systems import CoupledSystem, System

Array = Any
MOST_VALUES = 8_000_000
"""Values of z that one call of the recursion may return (64 MB)."""
HYPER = ("learning_rate", "momentum", "weight_decay")


def discrete_modes(
    systems: Sequence[System], optimizers: Sequence[Optimizer], step_numbers: Sequence[Int[Array, "records"]]
) -> list[Float[Array, "records groups members"]]:
    """z of each system at its recorded steps, exactly; systems of equal shape run together."""
    from nqf_pipeline.dynamics.recursion import recursion

    found: dict[int, Array] = {}
    for part in _batches([_shape(*each) for each in zip(systems, optimizers, step_numbers, strict=True)]):
        timetables = [optimizers[i].timetable for i in part]
        last = max(int(step_numbers[i][-1]) for i in part)
        shares = [timetable.share(np.arange(last)) for timetable in timetables if timetable is not None]
        z = recursion(
            **{name: np.stack([getattr(systems[i], name) for i in part]) for name in ("rate", "coupling", "seed")},
            **{name: np.array([getattr(optimizers[i], name) for i in part]) for name in HYPER},
            step_number=np.stack([np.asarray(step_numbers[i]) for i in part]),
            share=np.stack(shares) if shares else None,
        )
        found.update(zip(part, z, strict=True))
    return [found[i] for i in range(len(systems))]


def coupled_modes(
    systems: Sequence[CoupledSystem], optimizers: Sequence[Optimizer], step_numbers: Sequence[Int[Array, "records"]]
) -> list[Float[Array, "records groups members"]]:
    """z of interacting modes at the recorded steps, exactly; systems of one shape, schedule and step grid run together."""
    from nqf_pipeline.dynamics.recursion import coupled_recursion

    groups: dict[Hashable, list[int]] = defaultdict(list)
    for i, (modes, optimizer, steps) in enumerate(zip(systems, optimizers, step_numbers, strict=True)):
        groups[modes.rate.shape, optimizer.timetable, np.asarray(steps).tobytes()].append(i)
    found: dict[int, Array] = {}
    for part in groups.values():
        rate, seed = (np.stack([getattr(systems[i], name)[:, 0] for i in part]) for name in ("rate", "seed"))
        interaction = np.stack([systems[i].interaction for i in part])
        z = coupled_recursion(rate, interaction, seed, [optimizers[i] for i in part], step_numbers[part[0]])
        found.update(zip(part, z[..., None], strict=True))
    return [found[i] for i in range(len(systems))]


def _shape(modes: System, optimizer: Optimizer, step_number: Int[Array, "records"]) -> tuple[int, ...]:
    """What systems stepped together share; scheduled ones keep to themselves and to their own length, which their table of shares has."""
    scheduled = (0, 0) if optimizer.timetable is None else (1, int(step_number[-1]))
    return (*modes.rate.shape, len(step_number), *scheduled)


def _batches(shapes: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    """Indices of equal shapes, as many together as memory allows."""
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, shape in enumerate(shapes):
        groups[shape].append(i)
    for shape, members in groups.items():
        size = max(1, MOST_VALUES // int(np.prod(shape[:3])))
        yield from (members[start : start + size] for start in range(0, len(members), size))
