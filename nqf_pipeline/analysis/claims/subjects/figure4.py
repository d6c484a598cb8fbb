"""Figure 4 of the paper: orthogonal samples ignite one by one."""

from __future__ import annotations

from nqf_pipeline.analysis.claims.claim import Claim
from nqf_pipeline.analysis.claims.staircases import clock_rates, plateau_count, plateau_heights, widening, worst

STUDY, TASK, SHOWN = "fig4", "orthogonal_samples", 1e-5

CLAIMS = (
    Claim(
        "figure4.steps",
        "The scalar equation of each sample gives the steps at which gradient descent learns it (within 1%).",
        "Theorem 5, Figure 4",
        STUDY,
        worst("flow", 0.01, task=TASK, epsilon=SHOWN),
    ),
    Claim(
        "figure4.steps_discrete",
        "The exact recursion of a sample's features gives the steps at which it is learnt (within 1e-9).",
        "Theorem 5 with the learning rate",
        STUDY,
        worst("discrete", 1e-9, task=TASK),
    ),
    Claim(
        "figure4.tau",
        "In tau = t / ln(1/epsilon) samples ignite at 1 / zeta_mu (within 5%, epsilon = 1e-5).",
        "Theorem 10, Figure 4",
        STUDY,
        worst("asymptote", 0.05, task=TASK, epsilon=SHOWN),
    ),
    Claim(
        "figure4.tau_limit",
        "Each sample's ignition time grows as ln(1/epsilon) / zeta_mu (slope within 2%).",
        "Theorem 10",
        STUDY,
        clock_rates(TASK, 0.02),
    ),
    Claim(
        "figure4.gaps",
        "Gaps between samples diverge as ln(1/epsilon): from first to last at the rate 1/zeta_4 - 1/zeta_1 = 1.75 (within 1%).",
        "Theorem 10",
        STUDY,
        widening(TASK),
    ),
    Claim(
        "figure4.plateaus",
        "m = 4 samples give four plateaus of the total loss (epsilon = 1e-5).",
        "Theorem 10, Figure 4",
        STUDY,
        plateau_count(TASK, SHOWN, 4),
    ),
    Claim(
        "figure4.heights",
        "At epsilon = 1e-5 plateaus lie at the loss of the samples not yet learnt (within 5%).",
        "Theorem 5, Figure 4",
        STUDY,
        plateau_heights(TASK, SHOWN, 0.05),
    ),
)
