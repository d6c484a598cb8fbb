"""Weight-space training of a quadratic form, written with nothing but sums over units, jax.grad and optax."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax

from nqf_pipeline.forms.quadratic import DenseForm

OPTAX = {
    "sgd": optax.sgd(0.02),
    "momentum": optax.sgd(0.01, momentum=0.9),
    "decay": optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.02)),
    "momentum_decay": optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.01, momentum=0.9)),
}


def random_form(rng: np.random.Generator, size: int = 4, outputs: int = 2, samples: int = 12, *, coupled: bool = True) -> DenseForm:
    """Symmetric A and B, everything of order one or less; g = B = 0 unless `coupled`."""
    first, second = rng.standard_normal((2, outputs, samples, size, size)) / size
    constant, slope = rng.standard_normal((outputs, samples)), rng.standard_normal((outputs, samples, size)) / 4
    on = float(coupled)
    return DenseForm(constant, on * slope, first + first.swapaxes(-1, -2), on * (second + second.swapaxes(-1, -2)) / 8)


def unit_outputs(form: DenseForm, weights: jax.Array) -> jax.Array:
    """sum_i g.w_i + sum_ij w_i^T B w_j + sum_i w_i^T A w_i, unit by unit."""
    single = jnp.einsum("omp,pi->om", form.g, weights) + jnp.einsum("pi,ompq,qi->om", weights, form.A, weights)
    return form.f0 + single + jnp.einsum("pi,ompq,qj->om", weights, form.B, weights)


def train(objective, weights, rule: optax.GradientTransformation, steps: int, batches: np.ndarray | None = None):
    """Weights (any tree) after 0, 1, ..., `steps` steps of objective(weights, index); index is null for the full batch."""
    index = None if batches is None else jnp.asarray(batches[:steps])

    def step(state, at):
        current, memory = state
        change, memory = rule.update(jax.grad(objective)(current, at), memory, current)
        return (optax.apply_updates(current, change), memory), current

    start = jax.tree.map(jnp.asarray, weights)
    scan = jax.jit(lambda first: jax.lax.scan(step, (first, rule.init(first)), index, length=steps))
    (last, _), before = scan(start)
    return jax.tree.map(lambda early, final: np.concatenate([early, final[None]]), before, last)
