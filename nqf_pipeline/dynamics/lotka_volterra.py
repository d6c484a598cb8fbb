"""Interacting modes, dz_k/dt = z_k (r_k - sum_j C_kj z_j): gradient flow by a stiff solver in ln z.

ln z is the variable that seeds of 1e-12 and saturated modes share; its Jacobian -C Diag(z) is exact. The exact steps of an optimizer are in
`recursion.coupled_recursion`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import ODEintWarning, odeint, solve_ivp

Array = Any
TOLERANCE = 1e-12
MOST = 700.0
"""ln z beyond which a trial step of the solver would overflow."""
MOST_STEPS = 50_000
"""Steps of the solver between two of the given times."""


def flow(
    time: Float[Array, "times"],
    rate: Float[Array, "modes"],
    interaction: Float[Array, "modes modes"],
    seed: Float[Array, "modes"],
    tolerance: float = TOLERANCE,
) -> Float[Array, "times modes"]:
    """z(time) from z(0) = seed >= 0, times increasing from 0 or later; relative error of z below 1e-9 (random systems of 2 to 11 modes).

    C positive semidefinite, as that of every squared error is. nan (no statement) from where the solver gives up on.
    """
    live = seed > 0
    drive, among = rate[live], interaction[np.ix_(live, live)]
    result = np.zeros((len(time), len(rate)))
    if not live.any():
        return result

    def slope(_: float, x: Array) -> Array:
        return drive - among @ np.exp(np.minimum(x, MOST))

    def jacobian(_: float, x: Array) -> Array:
        return -among * np.exp(np.minimum(x, MOST))

    start = np.log(seed[live])
    options: dict[str, Any] = {"rtol": tolerance, "atol": tolerance}
    # The same solver twice: `odeint` steps in compiled code, `solve_ivp` says how far it got where that fails.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ODEintWarning)
        path, report = odeint(
            lambda x, t: slope(t, x),
            start,
            np.concatenate([[0.0], time]),
            Dfun=lambda x, t: jacobian(t, x),
            full_output=True,
            mxstep=MOST_STEPS,
            **options,
        )
    if report["message"] == "Integration successful.":
        result[:, live] = np.exp(path[1:])
        return result
    solved = solve_ivp(slope, (0.0, float(time[-1])), start, "LSODA", time, jac=jacobian, **options)
    reached = len(solved.t)
    result[:reached, live] = np.exp(solved.y.T)
    result[reached:] = np.nan
    return result
