"""Columns of the tables whose rows are mean curves: their exponents, and the same over all windows."""

from __future__ import annotations

from nqf_pipeline.store.columns import GROUP, Column

OF_CURVES: dict[str, tuple[Column, ...]] = {
    "exponents": (
        *GROUP,
        Column("bucket", "string", "", "node of trajectories.zarr that holds the cells", key=True),
        Column("source", "string", "", "curve: network, twin, or theory", key=True),
        Column("seeds", "int64", "1", "cells (seeds) behind the row"),
        Column("exponent", "float64", "1", "k of loss = A time^-k + floor in the window"),
        Column("ci_low", "float64", "1", "lower end of the interval"),
        Column("ci_high", "float64", "1", "upper end of the interval"),
        Column("ci_method", "string", "", "jackknife_t (over seeds) or subwindows (one seed: sensitivity to the window)"),
        Column("window_start", "float64", "gradient-flow time", "start of the window"),
        Column("window_end", "float64", "gradient-flow time", "end of the window"),
        Column("decades", "float64", "1", "log10(window_end / window_start)"),
        Column("points", "int64", "1", "records in the window"),
        Column("ignitions", "float64", "1", "watched modes that ignite inside the window (mean over seeds)"),
        Column("floor", "float64", "loss", "floor of the fit, given by theory or fitted"),
        Column(
            "predicted_finite",
            "float64",
            "1",
            "the same fit, same window, to the theory's curve (expected before weights are drawn, if any)",
        ),
        Column("predicted_limit", "float64", "1", "exponent for epsilon -> 0 and infinitely many modes"),
        Column("relative_error", "float64", "1", "exponent / predicted_finite - 1"),
        Column("best_model", "string", "", "law with the lowest BIC (docs/fitting.md); `theory` is its finite-size curve (networks only)"),
        Column("power_law_bic", "float64", "1", "BIC of the power law above the best model's; below 10 decides nothing"),
        Column("exponent_before", "float64", "1", "smoothly broken power law: exponent before the break"),
        Column("exponent_after", "float64", "1", "smoothly broken power law: exponent after the break"),
        Column("break_time", "float64", "gradient-flow time", "smoothly broken power law: the break"),
        Column("theory_scale", "float64", "1", "factor by which the curve is slower than theory's finite-size curve fitted to it"),
        Column("theory_misfit", "float64", "1", "root mean square of ln loss about theory's curve, its time and size fitted"),
        Column("theory_bic", "float64", "1", "BIC of theory's curve above the best model's"),
        Column("status", "string", "", "ok or not_resolved"),
        Column("reason", "string", "", "why an exponent is not resolved"),
    ),
    "window_scan": (
        *GROUP,
        Column("bucket", "string", "", "node of trajectories.zarr that holds the cells", key=True),
        Column("source", "string", "", "curve: network or twin", key=True),
        Column("window_start", "float64", "gradient-flow time", "start of the window", key=True),
        Column("window_end", "float64", "gradient-flow time", "end of the window", key=True),
        Column("decades", "float64", "1", "log10(window_end / window_start)"),
        Column("points", "int64", "1", "records in the window"),
        Column("exponent", "float64", "1", "k of loss = A time^-k + floor in the window"),
        Column("predicted_finite", "float64", "1", "the same fit, same window, to the theory's curve"),
    ),
}
