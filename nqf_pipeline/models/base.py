"""An architecture is one function of its units.

Each architecture is one frozen pydantic model: its fields are what a study may name, its methods are the
network, the closed-form structure and the part of W that the structure reads. The quadratic twin, the
moment dynamics and the regime checks follow from these.

Layout: W has shape (unit_size, width), one column a unit. Inputs have shape (*input_shape, samples),
outputs (outputs, samples).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import lazy_loader
import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field

from nqf_pipeline.forms.modes import ModeBasis
from nqf_pipeline.forms.structure import Structure

Array = Any
jax = lazy_loader.load("jax")
"""Imported when a network is first evaluated: planning and analysis never pay for JAX."""


class Architecture(BaseModel):
    """A module made of `width` interchangeable units with `unit_size` parameters each."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    pairing: ClassVar[Literal["outer", "rowwise"]] = "outer"
    """How factors combine into G: Z1 Z2^T, or the row sums of Z1 * Z2 where A(x) is diagonal."""
    exactly_quadratic: ClassVar[bool] = False
    """The network is its own quadratic form at any scale."""
    exchangeable: ClassVar[bool] = True
    """Units may be permuted without changing the function (not so in the Fourier MLP)."""
    positive: ClassVar[bool] = False
    """The order parameter is positive semidefinite (one factor): modes with negative targets are never learnt."""
    whitenable: ClassVar[bool] = False
    """A linear map on the first input axis maps the linear features likewise, so they can be made white."""
    sees_all: ClassVar[bool] = True
    """Enough data determine every entry of G; otherwise modes are read through what the outputs see of them."""
    gaussian_inputs: ClassVar[bool] = True
    """`draw_inputs` is standard normal; otherwise inputs have a form of their own (one-hot), which no linear map keeps."""

    layered: ClassVar[bool] = False
    """Several layers with a quadratic form each (see `models.stack`): the outputs are not linear in one order parameter."""
    streams: ClassVar[bool] = True
    """`structure` can be written down inside a compiled program, so that every training step may draw new samples."""

    small_products: ClassVar[bool] = False
    """Samples are multiplied one by one with small matrices (attention), which XLA does faster than the library it hands large ones to."""

    width: int = Field(default=64, ge=1, description="number of units (hidden neurons, heads, kernels, experts)")

    @property
    def name(self) -> str:
        return str(getattr(self, "kind"))  # noqa: B009  (every subclass has the discriminator `kind`)

    if TYPE_CHECKING:  # a property of most architectures and a field of users' own, which a property here would hide

        @property
        def unit_size(self) -> int:
            """Parameters of one unit, p."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""

    @property
    def smooth(self) -> bool:
        """Whether the module is three times differentiable at zero weights (condition of Theorem 1)."""
        return True

    @property
    def output_size(self) -> int:
        """Number of outputs."""
        return int(getattr(self, "outputs", 1))

    @property
    def degeneracy(self) -> int:
        """Directions in which one unit can carry a mode (dv for a head, 1 for a neuron)."""
        return 1

    @property
    def gaussian_start(self) -> bool:
        """Whether z_k(0) / sigma^2 is chi-square distributed; otherwise it is exactly `degrees`."""
        return True

    @property
    def degrees(self) -> int:
        """Columns of the factors: units times degeneracy (degrees of freedom of z_k(0) / sigma^2)."""
        return self.width * self.degeneracy

    @property
    def drawn_as(self) -> Architecture:
        """The architecture whose initial weights this one takes: itself, unless a field concerns its twin only."""
        return self

    @property
    def fingerprint(self) -> str:
        """What the numbers depend on besides the fields (the contents of a file); empty when nothing."""
        return ""

    def check(self) -> None:
        """Raise InputError when the module cannot be studied; architectures of this project all can."""

    def draw_inputs(self, rng: np.random.Generator, samples: int) -> Float[np.ndarray, "*input_shape samples"]:
        """Random inputs for tasks that draw their own."""
        return rng.standard_normal((*self.input_shape, samples))

    def is_own_twin(self, batch_size: int | None) -> bool:
        """An exactly quadratic network on the full batch: it needs no samples and no second run beside it."""
        return self.exactly_quadratic and batch_size is None

    def encode(self, inputs: Float[Array, "*input_shape samples"]) -> Array:
        """Whatever can be computed once per data set (patches of an image)."""
        return inputs

    @abstractmethod
    def network(self, weights: Float[Array, "unit_size width"], encoded: Array) -> Float[Array, "outputs samples"]:
        """The network itself, on encoded inputs (JAX)."""

    def lay_out(self, encoded: Array) -> Any:
        """Encoded samples as `by_row` runs fastest on them, made once for all steps of a training."""
        return encoded

    def by_row(self, weights: Float[Array, "unit_size width"], samples: Any) -> Float[Array, "samples outputs"]:
        """The network with one sample a row, on encoded samples or on what `lay_out` made of them: what training differentiates."""
        return self.network(weights, samples).T

    def apply(self, weights: Float[Array, "unit_size width"], inputs: Array) -> Float[Array, "outputs samples"]:
        """The network on plain inputs."""
        return self.network(weights, self.encode(inputs))

    @abstractmethod
    def structure(self, inputs: Float[Array, "*input_shape samples"]) -> Structure:
        """The closed-form structure at these inputs (NumPy, float64)."""

    @abstractmethod
    def factors(self, weights: Float[Array, "unit_size width"]) -> tuple[Float[Array, "rows degrees"], ...]:
        """The parts of W that the structure reads: (Z1, Z2), or (Z,) when symmetric."""

    @property
    def compressed_width(self) -> int:
        """A number of columns at which factors reproduce any quadratic form: one more than their rows, which is k_V + 1 where data span
        them all (theory: Theorem 3)."""
        return sum(map(len, self.factors(np.zeros((self.unit_size, self.width))))) + 1

    def order(self, weights: Float[Array, "unit_size width"]) -> Array:
        """The reduced order parameter G that `structure(...).apply` takes."""
        return self.combine(self.factors(weights))

    def combine(self, factors: tuple[Float[Array, "rows columns"], ...]) -> Array:
        """G of factors with any number of columns."""
        left, right = factors[0], factors[-1]
        return left @ right.T if self.pairing == "outer" else (left * right).sum(-1)

    def mode_vectors(self, weights: Array, basis: ModeBasis) -> Float[Array, "modes degrees"]:
        """p_k, the modes in unit space; z_k = |p_k|^2."""
        return basis.vectors(self.factors(weights))

    def initial(self, rng: np.random.Generator) -> Float[np.ndarray, "unit_size width"]:
        """Standard normal weights, to be scaled by sigma: the same draw at every sigma."""
        return rng.standard_normal((self.unit_size, self.width))
