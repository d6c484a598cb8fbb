"""Architectures: one definition each, from which network, structure and twin follow."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.bilinear import BilinearSequence, MatrixCompletion, TiedAttention, WordContext
from nqf_pipeline.models.cnn import CNN
from nqf_pipeline.models.custom import Custom
from nqf_pipeline.models.deep_attention import DeepAttention
from nqf_pipeline.models.deep_mlp import DeepMLP
from nqf_pipeline.models.diagonal import Diagonal, DiagonalProduct
from nqf_pipeline.models.fourier_mlp import FourierMLP
from nqf_pipeline.models.mixture_of_experts import MixtureOfExperts
from nqf_pipeline.models.mlp import MLP
from nqf_pipeline.models.multi_head import MultiHead
from nqf_pipeline.models.phase_retrieval import Augmentation, PhaseRetrieval
from nqf_pipeline.models.query_key import QueryKey, SingleHead
from nqf_pipeline.models.sensing import MatrixSensing, PSDSensing

AnyArchitecture = Annotated[
    MLP
    | CNN
    | QueryKey
    | MultiHead
    | MixtureOfExperts
    | PhaseRetrieval
    | Diagonal
    | FourierMLP
    | SingleHead
    | DiagonalProduct
    | PSDSensing
    | MatrixSensing
    | MatrixCompletion
    | WordContext
    | TiedAttention
    | BilinearSequence
    | Augmentation
    | DeepMLP
    | DeepAttention
    | Custom,
    Field(discriminator="kind"),
]

ARCHITECTURES: dict[str, type[Architecture]] = {
    str(cls.model_fields["kind"].default): cls
    for cls in (
        MLP,
        CNN,
        QueryKey,
        MultiHead,
        MixtureOfExperts,
        PhaseRetrieval,
        Diagonal,
        FourierMLP,
        SingleHead,
        DiagonalProduct,
        PSDSensing,
        MatrixSensing,
        MatrixCompletion,
        WordContext,
        TiedAttention,
        BilinearSequence,
        Augmentation,
        DeepMLP,
        DeepAttention,
        Custom,
    )
}

__all__ = [
    "ARCHITECTURES",
    "CNN",
    "MLP",
    "AnyArchitecture",
    "Architecture",
    "Augmentation",
    "BilinearSequence",
    "Custom",
    "DeepAttention",
    "DeepMLP",
    "Diagonal",
    "DiagonalProduct",
    "FourierMLP",
    "MatrixCompletion",
    "MatrixSensing",
    "MixtureOfExperts",
    "MultiHead",
    "PSDSensing",
    "PhaseRetrieval",
    "QueryKey",
    "SingleHead",
    "TiedAttention",
    "WordContext",
]
