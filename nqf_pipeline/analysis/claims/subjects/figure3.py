"""Figure 3 of the paper: orthogonal features, a staircase of five and a power law of a thousand."""

from __future__ import annotations

from nqf_pipeline.analysis.claims.claim import Claim, Finding
from nqf_pipeline.analysis.claims.estimate import Estimate, exactly
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.claims.measures import Measure
from nqf_pipeline.analysis.claims.staircases import clock_rates, decayed, plateau_count, plateau_heights, transition, widening, worst

STUDY, TASK, PAPER = "fig3", "orthogonal_features", 1e-5
STAIRS = {"task": TASK, "epsilon": PAPER, "weight_decay": 0.0}


def exponent(profile: float, epsilon: float) -> Measure:
    """Fitted exponent of a thousand modes against its limit."""

    def measure(evidence: Evidence) -> Finding:
        row = evidence.exponents(task="feature_power_law", source="network", initial_profile=profile, epsilon=epsilon).iloc[0]
        note = (
            f"Window of {row['decades']:.2f} decades with {row['ignitions']:.0f} ignitions; interval: sensitivity to the window. Predicted "
            f"for this epsilon, window and number of modes: {row['predicted_finite']:.3f}."
        )
        return Finding.equals(row["predicted_limit"], Estimate(row["exponent"], row["ci_low"], row["ci_high"]), 0.02, note)

    return measure


def finite(evidence: Evidence) -> Finding:
    """Worst distance of fitted exponents from their finite-size predictions."""
    rows = evidence.exponents(task="feature_power_law", source="network")
    errors = rows["relative_error"].abs()
    return Finding.at_most(0.01, exactly(errors.max()), f"Largest of {len(rows)} fits, two profiles, epsilon from 1e-6 to 1e-30.")


CLAIMS = (
    Claim(
        "figure3.steps",
        "Closed forms of gradient flow give the steps at which five features are learnt by gradient descent (within 1%).",
        "Theorem 6, Figure 3 left",
        STUDY,
        worst("flow", 0.01, **STAIRS),
    ),
    Claim(
        "figure3.steps_discrete",
        "The scalar recursion of each feature gives the steps exactly (within 1e-9).",
        "Theorem 6 with the learning rate",
        STUDY,
        worst("discrete", 1e-9, task=TASK),
    ),
    Claim(
        "figure3.asymptote",
        "At epsilon = 1e-5 plateaus end at t = ln(1/epsilon) / r_k (within 5%).",
        "Sudden learning, Figure 3 left",
        STUDY,
        worst("asymptote", 0.05, **STAIRS),
    ),
    Claim(
        "figure3.clock_rates",
        "Each ignition time grows as ln(1/epsilon) / r_k (slope within 1%).",
        "Sudden learning, clock of Theorem 6",
        STUDY,
        clock_rates(TASK, 0.01),
    ),
    Claim(
        "figure3.gaps",
        "Gaps between ignitions diverge as ln(1/epsilon): from first to last feature at the rate 1/r_5 - 1/r_1 = 15 (within 1%).",
        "Sudden learning",
        STUDY,
        widening(TASK),
    ),
    Claim(
        "figure3.transition",
        "A transition takes a time 2 ln 9 / r_k, whatever epsilon (from a tenth to nine tenths, epsilon = 1e-16, within 5%): in units of "
        "ln(1/epsilon) it becomes a jump.",
        "Sudden learning, clock of Theorem 6",
        STUDY,
        transition(TASK, 1e-16),
    ),
    Claim(
        "figure3.transition_large_epsilon",
        "At epsilon = 1e-3 a transition takes the same time 2 ln 9 / r_k (within 5%).",
        "Sudden learning, at a larger start",
        STUDY,
        transition(TASK, 1e-3),
    ),
    Claim(
        "figure3.weight_decay",
        "Weight decay lambda lowers every rate by 2 lambda: features with r_k <= 2 lambda are never learnt, the others up to a share "
        "1 - 2 lambda / r_k.",
        "Sudden learning, weight decay as control parameter",
        STUDY,
        decayed(TASK),
    ),
    Claim(
        "figure3.plateaus",
        "Five features give five plateaus at epsilon = 1e-5.",
        "Figure 3 left",
        STUDY,
        plateau_count(TASK, PAPER, 5),
    ),
    Claim(
        "figure3.plateaus_large_epsilon",
        "Five features give five plateaus even at epsilon = 1e-3.",
        "Figure 3 left, at a larger start",
        STUDY,
        plateau_count(TASK, 1e-3, 5),
    ),
    Claim(
        "figure3.heights",
        "At epsilon = 1e-5 plateaus lie at the loss that the features not yet learnt contribute (within 5%).",
        "Theorem 6, Figure 3 left",
        STUDY,
        plateau_heights(TASK, PAPER, 0.05),
    ),
    Claim(
        "figure3.heights_small_epsilon",
        "At epsilon = 1e-12 plateaus lie at the loss that the features not yet learnt contribute (within 1%).",
        "Theorem 6, at a smaller start",
        STUDY,
        plateau_heights(TASK, 1e-12, 0.01),
    ),
    Claim(
        "figure3.exponent",
        "A thousand features with alpha1 = 2, alpha2 = 0.8 and z_k(0) = 1e-6 k^-1.2 show the exponent 1.25 (within 2%).",
        "Scaling laws, Figure 3 right",
        STUDY,
        exponent(1.2, 1e-6),
    ),
    Claim(
        "figure3.exponent_flat_start",
        "The exponent 1.25 does not depend on the initial profile: z_k(0) = 1e-6 for all features shows it (within 2%).",
        "Scaling laws",
        STUDY,
        exponent(0.0, 1e-6),
    ),
    Claim(
        "figure3.exponent_flat_tiny",
        "From a flat start the exponent comes back as epsilon -> 0: at epsilon = 1e-30 it is 1.25 (within 2%).",
        "Scaling laws",
        STUDY,
        exponent(0.0, 1e-30),
    ),
    Claim(
        "figure3.exponent_finite",
        "Fitted exponents are those predicted for the same epsilon, profile, number of modes and window (within 1%).",
        "Theorem 6, at finite size",
        STUDY,
        finite,
    ),
)
