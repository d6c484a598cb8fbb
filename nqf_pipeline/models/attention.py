"""Softmax attention of the last token over all tokens, heads in parallel."""

from __future__ import annotations

from typing import Any

import lazy_loader
from jaxtyping import Float

Array = Any
jax = lazy_loader.load("jax")


def attention(
    keys: Float[Array, "dimension key_size heads"],
    queries: Float[Array, "dimension key_size heads"],
    tokens: Float[Array, "dimension tokens samples"],
) -> Float[Array, "heads tokens samples"]:
    """softmax_n(X^T WK^T WQ x / sqrt(dk)) for every head, x the last token; keys = WK^T, queries = WQ^T.

    Keys are folded into queries first (D x D per head), so nothing of size dk x tokens is ever formed.
    """
    dimension, key_size, heads = keys.shape
    folded = jax.numpy.einsum("akh,bkh->hab", keys, queries) / key_size**0.5
    asked = (folded.reshape(heads * dimension, dimension) @ tokens[:, -1]).reshape(heads, dimension, -1)
    return jax.nn.softmax(jax.numpy.einsum("ham,anm->hnm", asked, tokens), axis=1)


def attended(
    weights: Float[Array, "heads tokens samples"], tokens: Float[Array, "dimension tokens samples"]
) -> Float[Array, "heads dimension samples"]:
    """The attention-weighted mean token of every head."""
    return jax.numpy.einsum("hnm,anm->ham", weights, tokens)


def self_attended(
    keys: Float[Array, "dimension key_size heads"],
    queries: Float[Array, "dimension key_size heads"],
    tokens: Float[Array, "dimension tokens samples"],
) -> Float[Array, "heads dimension tokens samples"]:
    """The attention-weighted mean token of every head, asked by every token."""
    folded = jax.numpy.einsum("akh,bkh->hab", keys, queries) / keys.shape[1] ** 0.5
    asked = jax.numpy.einsum("hab,bqm->haqm", folded, tokens)
    weights = jax.nn.softmax(jax.numpy.einsum("haqm,anm->hnqm", asked, tokens), axis=1)
    return jax.numpy.einsum("hnqm,anm->haqm", weights, tokens)
