"""Ways in which a file is damaged."""

from __future__ import annotations

import random
from collections.abc import Iterator

Damage = tuple[str, int | None, bytes | None]
"""Kind, seed, and the bytes that are left; None for a file that is gone."""


def damages(data: bytes, flips: int, seed: int) -> Iterator[Damage]:
    """Truncation at every kind of offset, single bit flips, lost blocks, foreign ends, and the file gone."""
    size = len(data)
    draw = random.Random(seed)
    for offset in sorted({0, 1, size // 4, size // 2, 3 * size // 4, size - 1} & set(range(size))):
        yield "truncated", None, data[:offset]
    yield "deleted", None, None
    yield "garbage appended", None, data + b"\x00garbage"
    for number in range(flips):
        own = draw.randrange(2**32)
        yield "bit flipped", own, flipped(data, own)
        if number % 4 == 0:
            yield "block of zeros", own, zeroed(data, own)


def flipped(data: bytes, seed: int) -> bytes:
    draw = random.Random(seed)
    where = draw.randrange(len(data))
    return data[:where] + bytes([data[where] ^ (1 << draw.randrange(8))]) + data[where + 1 :]


def zeroed(data: bytes, seed: int) -> bytes:
    """A block of a disk that never reached it."""
    start = random.Random(seed).randrange(len(data))
    return (data[:start] + bytes(64) + data[start + 64 :])[: len(data)]
