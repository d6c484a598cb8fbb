"""Curves of which everything is known, and the noise on them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.signal import lfilter

RECORDS = 200
DECADES = 4.0
FLOOR = 3e-3
"""Of curves t^-k that begin at 1."""
RATIO, MODES, START = 0.3, 3, 1e-6
"""Staircases: each mode's strength over that of the one before, how many, and their initial strength."""
STAIR_FLOOR = 1e-3
NOISES = {
    "white": "independent, normal",
    "correlated": "first order, correlation 0.7 between records",
    "strongly correlated": "first order, correlation 0.9",
    "heavy tails": "Student, three degrees of freedom",
}
Times = Float[np.ndarray, "records"]
Losses = Float[np.ndarray, "curves records"]
Numbers = Float[np.ndarray, "curves"]
_LAG = {"correlated": 0.7, "strongly correlated": 0.9}


def noise(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> Losses:
    """Noise of variance 1."""
    if kind == "heavy tails":
        return rng.standard_t(3, shape) / np.sqrt(3)
    white = rng.standard_normal(shape)
    if kind == "white":
        return white
    lag = _LAG[kind]
    white[:, 0] /= np.sqrt(1 - lag**2)  # stationary from the first record on
    return np.asarray(lfilter([np.sqrt(1 - lag**2)], [1, -lag], white, axis=1))


def times(recorded: str, decades: float = DECADES, records: int = RECORDS) -> Times:
    """`log` or `linear` spacing from time 1."""
    end = 10.0**decades
    return np.geomspace(1, end, records) if recorded == "log" else np.linspace(1, end, records)


def power_law(time: Times, exponent: Numbers, floor: float) -> Losses:
    """t^-k + floor."""
    return np.asarray(time ** -exponent[:, None] + floor)


WRONG = {
    "exponential": lambda t, k: np.exp(-t / (0.03 * t[-1]) * k) + 0.01,
    "stretched exponential": lambda t, k: np.exp(-((t / 50) ** (0.3 + 0.2 * k))),
    "logarithmic": lambda t, k: 1 / (1 + k * np.log(t)),
    "broken power law": lambda t, k: t ** (-0.3 * k) * (1 + (t / 100) ** 3) ** (-0.3 * k),
    "flat": lambda t, k: 1.0 + 0 * t * k,
}
"""Curves that are no power law over their range, for a time t and a number k between 0.5 and 1.5 that varies them. The broken one is two:
exponent 0.3 k before 100 and 1.2 k after it."""

STEPPED = ("exponential", "stretched exponential")
"""Of these, the ones that lie flat in log time and then drop: a plateau found on them is none too many."""


def staircase(time: Times, curves: int) -> tuple[Losses, Float[np.ndarray, "modes"]]:
    """(loss, ignition times) of independent logistic modes: strength one half of mode k at ln(1 / start - 1) / (2 s_k)."""
    strength = RATIO ** np.arange(float(MODES))
    odds = np.log(1 / START - 1)
    learnt = 0.5 * (1 + np.tanh(strength[:, None] * time - odds / 2))
    loss = ((strength[:, None] * (1 - learnt)) ** 2).sum(0) + STAIR_FLOOR
    return np.tile(loss, (curves, 1)), odds / strength / 2
