"""Softmax attention of the last token over all tokens, heads in parallel.

A sample's small matrices are multiplied one sample after another, so samples come first, except in the softmax: its sums over tokens
run fastest across samples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import lazy_loader
from jaxtyping import Float

from nqf_pipeline.models.layout import Both, product, response

Array = Any
jax = lazy_loader.load("jax")


class Tokens(NamedTuple):
    """Tokens in the layouts that attention and its gradient read; a constant of training."""

    asking: Both
    by_feature: Float[Array, "samples dimension tokens"]
    by_token: Float[Array, "samples tokens dimension"]

    @classmethod
    def of(cls, tokens: Float[Array, "dimension tokens samples"]) -> Tokens:
        return cls(Both.of(tokens[:, -1]), tokens.transpose(2, 0, 1), tokens.transpose(2, 1, 0))


def attention(
    keys: Float[Array, "dimension key_size heads"],
    queries: Float[Array, "dimension key_size heads"],
    tokens: Float[Array, "dimension tokens samples"] | Tokens,
) -> Float[Array, "samples heads tokens"]:
    """softmax_n(X^T WK^T WQ x / sqrt(dk)) for every head, x the last token; keys = WK^T, queries = WQ^T.

    Keys are folded into queries first (D x D per head), so nothing of size dk x tokens is ever formed.
    """
    dimension, key_size, heads = keys.shape
    folded = jax.numpy.einsum("akh,bkh->bha", keys, queries) / key_size**0.5
    asking = tokens.asking if isinstance(tokens, Tokens) else tokens[:, -1]
    asked = response(asking, folded.reshape(dimension, -1)).reshape(-1, heads, dimension)
    if isinstance(tokens, Tokens):
        scores = product(_match, _mean, tokens, asked)
    else:
        scores = jax.numpy.einsum("mha,anm->mhn", asked, tokens)
    return jax.numpy.moveaxis(jax.nn.softmax(jax.numpy.moveaxis(scores, 0, -1), axis=1), -1, 0)


def attended(
    weights: Float[Array, "samples heads tokens"], tokens: Float[Array, "dimension tokens samples"] | Tokens
) -> Float[Array, "samples heads dimension"]:
    """The attention-weighted mean token of every head."""
    if isinstance(tokens, Tokens):
        return product(_mean, _match, tokens, weights)
    return jax.numpy.einsum("mhn,anm->mha", weights, tokens)


def _match(tokens: Tokens, vectors: Float[Array, "samples heads dimension"]) -> Float[Array, "samples heads tokens"]:
    return jax.numpy.einsum("mha,man->mhn", vectors, tokens.by_feature)


def _mean(tokens: Tokens, weights: Float[Array, "samples heads tokens"]) -> Float[Array, "samples heads dimension"]:
    return jax.numpy.einsum("mhn,mna->mha", weights, tokens.by_token)


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
