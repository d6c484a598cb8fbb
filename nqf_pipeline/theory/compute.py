"""What the scaling dynamics say about spending compute: loss against modes learnt, and the best split between modes and steps.

A model of n modes (or samples) that has trained for a time t leaves, of a target with infinitely many, the modes it does not have and those
it has not learnt yet. With V_k ~ k^-alpha1 and r_k ~ k^-alpha2 (theory: section 5), up to constants,

    L(n, t) = n^-(alpha1 - 1) + t^-((alpha1 - 1) / alpha2).

The first term alone is the loss against the number of modes learnt: mode k ignites at t ~ k^alpha2, so along a run L ~ k^-(alpha1 - 1). At
fixed compute C = n t both terms fall alike at the minimum, which puts the last mode of the model where the run ends, n ~ t^(1 / alpha2):

    n ~ C^(1 / (1 + alpha2)),   t ~ C^(alpha2 / (1 + alpha2)),   L ~ C^(-(alpha1 - 1) / (1 + alpha2)).

The slower higher modes are (alpha2), the more of the compute goes into steps; alpha1 does not matter for the split. For samples alpha1 is
2 gamma1 and alpha2 is gamma2. epsilon stretches t by ln(1/epsilon), which moves no exponent where seeds share the profile of the plateaus.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tradeoff:
    """Exponents in the limit, as positive numbers except where a quantity falls."""

    loss: float
    """L ~ C^-loss at the best split."""
    modes: float
    """n ~ C^modes."""
    time: float
    """t ~ C^time."""
    learned: float
    """L ~ k^-learned along one run, k the number of modes learnt."""


def tradeoff(alpha1: float, alpha2: float) -> Tradeoff:
    """The exponents of rates k^-alpha2 and loss shares k^-alpha1 (alpha1 > 1, alpha2 > 0)."""
    return Tradeoff((alpha1 - 1) / (1 + alpha2), 1 / (1 + alpha2), alpha2 / (1 + alpha2), alpha1 - 1)
