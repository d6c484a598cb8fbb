"""Figure 7: how long the quadratic form describes networks that learn odd or even digits, and what happens afterwards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import span_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.parting import THRESHOLD, Parting, parting
from nqf_pipeline.analysis.windows import Unresolved

EARLY = 0.5
"""Share of what the twin ever learns that counts as the early phase."""
CLOSE, ALIKE = 0.1, 0.02
"""Final losses within 10 %, and test accuracies within two points, count as the same."""
NAMES = {"mlp": "An MLP with 20 hidden units", "cnn": "A CNN with 50 channels", "multi_head": "Attention with 10 heads"}


def _partings(evidence: Evidence, architecture: str) -> list[Parting]:
    found = []
    for curve in evidence.curves("network_loss", "twin_loss", experiment="parity", architecture=architecture):
        network, twin = curve.of("network_loss"), curve.of("twin_loss")
        if network is None or twin is None:
            raise Unresolved(f"{architecture}: a cell has no loss of network or twin")
        found.append(parting(network, twin, curve.steps))
    return found


def early(architecture: str) -> Callable[[Evidence], Finding]:
    """Share that the twin has learnt when the two part; all of it where they never do."""

    def measure(evidence: Evidence) -> Finding:
        found = _partings(evidence, architecture)
        steps, losses = (np.array([getattr(item, name) for item in found]) for name in ("step", "loss"))
        never = np.isnan(steps)
        where = f"at step {np.nanmedian(steps):.0f} and loss {np.nanmedian(losses):.3g}" if not never.all() else "never"
        note = f"Training losses first differ by {THRESHOLD:.0%} {where} (median of {len(found)} seeds; {never.sum()} never part)."
        return Finding.at_least(EARLY, span_of(1.0 if np.isnan(item.step) else item.learnt for item in found), note)

    return measure


def late(architecture: str) -> Callable[[Evidence], Finding]:
    """Final loss of the network over that of its twin."""

    def measure(evidence: Evidence) -> Finding:
        ratios = span_of(item.end_ratio for item in _partings(evidence, architecture))
        return Finding.equals(1.0, ratios, CLOSE, "Ratio of training losses at the last step, smallest and largest over seeds.")

    return measure


def accuracy(architecture: str) -> Callable[[Evidence], Finding]:
    """Test accuracy of the network minus that of its twin, at the last step."""

    def measure(evidence: Evidence) -> Finding:
        ends = []
        for curve in evidence.curves("network_test_accuracy", "twin_test_accuracy", experiment="parity", architecture=architecture):
            network, twin = curve.of("network_test_accuracy"), curve.of("twin_test_accuracy")
            if network is None or twin is None:
                raise Unresolved(f"{architecture}: the study has no test accuracy; it was trained before accuracy was recorded")
            ends.append((float(network[-1]), float(twin[-1])))
        own, twins = np.array(ends).T
        note = f"Last step: networks {np.median(own):.1%}, twins {np.median(twins):.1%} (medians of {len(ends)} seeds)."
        return Finding.equals(0.0, span_of(own - twins), ALIKE, note, absolute=True)

    return measure


def _claims(kind: str, name: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"figure7.early_{kind}",
            f"{name} on odd or even digits follows its quadratic form through the early phase: their training losses first differ by "
            f"{THRESHOLD:.0%} after the twin has learnt at least {EARLY:.0%} of all it ever learns (share of the drop of its loss).",
            "Figure 7 (the threshold is ours)",
            "fig7",
            early(kind),
        ),
        Claim(
            f"figure7.late_{kind}",
            f"{name}: the quadratic form still describes the network at the end: final training losses agree within {CLOSE:.0%}.",
            "Figure 7, section Limitations: higher orders (the range is ours)",
            "fig7",
            late(kind),
        ),
        Claim(
            f"figure7.accuracy_{kind}",
            f"{name} and its quadratic form classify test digits equally well at the end: accuracies agree within {ALIKE:.0%}.",
            "Figure 7, section Limitations: higher orders (the range is ours)",
            "fig7",
            accuracy(kind),
        ),
    )


CLAIMS = tuple(claim for kind, name in NAMES.items() for claim in _claims(kind, name))
