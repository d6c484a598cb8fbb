"""What a reader sees: names of kinds, headings of figures, and the colours that the page replaces by its own. Draws nothing."""

from __future__ import annotations

INK, MUTED, GRID, PAPER = "#1f2329", "#6b7280", "#e3e6ea", "#fffffe"

_NAMES = {
    "mlp": "MLP",
    "cnn": "CNN",
    "query_key": "query-key attention",
    "multi_head": "multi-head attention",
    "mixture_of_experts": "mixture of experts",
    "phase_retrieval": "phase retrieval",
    "diagonal": "diagonal network",
    "fourier_mlp": "Fourier MLP",
    "single_head": "single-head logits",
    "diagonal_product": "two-factor diagonal network",
    "psd_sensing": "PSD matrix sensing",
    "word_context": "word-context embedding",
    "tied_attention": "tied query-key attention",
    "bilinear_sequence": "bilinear sequence regression",
    "augmentation": "self-supervised augmentation",
    "custom": "own module",
    "deep_mlp": "deep MLP",
    "deep_attention": "deep attention",
    "gd": "gradient descent",
    "sgd": "minibatch SGD",
    "momentum": "momentum",
    "adam": "Adam",
    "feature_power_law": "power-law features",
    "sensing_ensemble": "sensing ensemble",
    "sample_power_law": "power-law samples",
    "teacher": "teacher",
    "teacher_network": "teacher network",
    "digits": "digits",
    "fourier": "Fourier target",
}
TIER_NAMES = {
    "asymptote": "asymptote (epsilon to 0)",
    "event": "event clock",
    "flow": "gradient flow, closed form",
    "discrete": "discrete recursion",
    "twin": "trained twin",
}
HEADINGS = {f"figure{number}": f"Figure {number} of the paper" for number in (2, 3, 4, 5)} | {
    "regimes": "Solvable regimes",
    "extrapolation": "The limit",
    "tradeoffs": "Spending compute",
    "collapse": "Sudden learning as a transition",
    "layers": "Several layers",
    "learning": "Learning curves",
    "modes": "Modes",
    "ignition": "Ignition times",
    "departure": "Where the twin fails",
    "validity": "Where the twin tells the time",
    "kernel": "Lazy or feature learning",
    "exponents": "Scaling exponents",
    "window_scan": "Windows and exponents",
    "power_laws": "Power-law losses",
    "fourier": "Fourier target",
    "digits": "Handwritten digits",
    "spectra": "Spectra",
    "run": "What ran",
}
"""Of every figure, in the order of the page."""


def readable(name: str) -> str:
    """The name a reader sees for a kind of architecture, optimizer or task."""
    return _NAMES.get(name, name.replace("_", " "))
