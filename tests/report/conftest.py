"""A finished study made of logistic modes: every number a figure may show has a known value."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from nqf_pipeline.store.merge import merge
from nqf_pipeline.store.shards import Summary, write_shard
from nqf_pipeline.store.tables import TABLES, write_table

TARGETS = np.array([1.0, 0.5, 0.25, 0.125])
RATES = {"gd": 0.02, "adam": 0.05}
LAG = {"mlp": 0.02, "cnn": 0.03, "query_key": 0.05, "multi_head": 0.0001}
TIERS = ("asymptote", "flow", "discrete")


def logistic(step, rate, start):
    """Share of the plateau at each step, growing at `rate` per step from `start`."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + (1.0 / start - 1.0) * np.exp(-rate * step))


def curves(steps, ignition, rate, targets):
    """Mode strengths (step, mode) and loss for modes igniting at given steps."""
    modes = 1.0 / (1.0 + np.exp(-np.clip(rate * (steps[:, None] - ignition), -700, 700)))
    return modes, ((targets * (1.0 - modes)) ** 2).sum(-1)


def log_steps(steps, records=96):
    return np.concatenate([[0.0], np.geomspace(1, steps, records - 1)]).round()


def training_cell(name, architecture, optimizer, sigma, seed, width=64, task="teacher", **extra):
    """Variables of one cell: the network lags its twin by a known share, more at large sigma and small width."""
    rng = np.random.default_rng([seed, width, int(1e6 * sigma)])
    rate = 4.0 * RATES[optimizer] * TARGETS
    start = np.log(64 * sigma**2 * rng.chisquare(61, 4) / 61 / (2 * TARGETS))
    exact = np.maximum(-start, 0.5) / rate
    lag = 1.0 + LAG[architecture] * (64 / width) * (1.0 + 20.0 * sigma) * rng.normal(1.0, 0.3, 4)
    steps = log_steps(3.0 * exact.max())
    twin_mode, twin_loss = curves(steps, exact, rate, TARGETS)
    network_mode, network_loss = curves(steps, exact * lag, rate, TARGETS)
    flow = curves(steps, exact * 0.99, rate, TARGETS)
    limit = -np.log(64 * sigma**2) / rate
    step_like = curves(steps, limit, 50 * rate, TARGETS)
    tiers = [step_like, flow, (twin_mode, twin_loss)]
    variables = {
        "network_loss": network_loss,
        "twin_loss": twin_loss,
        "network_test_loss": 1.1 * network_loss + 0.01,
        "twin_test_loss": 1.1 * twin_loss + 0.01,
        "divergence": np.abs(network_loss - twin_loss) ** 0.5 * (1 + 20 * sigma),
        "network_mode": network_mode,
        "twin_mode": twin_mode,
        "order_parameter": 2 * TARGETS * network_mode,
        "twin_kernel_change": twin_mode.sum(-1) / (width * sigma**2),
        "twin_kernel_turn": 0.3 * twin_mode.mean(-1),
        "step_number": steps.astype(np.int64),
        "time": RATES[optimizer] * steps,
        "mode_number": np.arange(1, 5),
        "mode_target": TARGETS,
        "theory_loss": np.stack([loss for _, loss in tiers]),
        "theory_mode": np.stack([mode for mode, _ in tiers]),
        "theory_ignition": np.stack([np.maximum(limit, 1), exact * 0.99, exact]),
    }
    coordinates = {
        "cell": name,
        "architecture": architecture,
        "task": task,
        "optimizer": optimizer,
        "sigma": sigma,
        "epsilon": width * sigma**2,
        "seed": seed,
        "width": width,
        "status": 1,
        "diverged_step": -1,
        "experiment": "fake",
        **extra,
    }
    ignition = {"network": exact * lag, "twin": exact}
    return variables, coordinates, ignition


def power_law_cell(name, epsilon, alpha1, alpha2, seed=0, task="feature_power_law", **extra):
    rank = np.arange(1, 401)
    zeta, energy = rank**-alpha2, rank**-alpha1
    steps = log_steps(2.0 * np.log(1 / epsilon) * 100.0**alpha2)
    loss = (energy * (1 - logistic(steps[:, None], zeta, epsilon)) ** 2).sum(-1)
    watched = np.array([0, 9, 99])
    modes = logistic(steps[:, None], zeta[watched], epsilon)
    variables = {
        "network_loss": loss,
        "twin_loss": loss,
        "divergence": np.zeros_like(loss),
        "network_mode": modes,
        "twin_mode": modes,
        "order_parameter": modes,
        "step_number": steps.astype(np.int64),
        "time": steps,
        "mode_number": watched + 1,
        "mode_target": zeta[watched],
        "theory_loss": np.stack([loss, loss, loss]),
        "theory_mode": np.stack([modes, modes, modes]),
        "theory_ignition": np.stack([-np.log(epsilon) / zeta[watched]] * 3),
    }
    coordinates = {
        "cell": name,
        "architecture": "fourier_mlp" if task == "fourier" else "diagonal",
        "task": task,
        "optimizer": "gd",
        "sigma": float(np.sqrt(epsilon)),
        "epsilon": epsilon,
        "seed": seed,
        "width": 1,
        "alpha1": alpha1,
        "alpha2": alpha2,
        "status": 1,
        "diverged_step": -1,
        "experiment": "fake",
        **extra,
    }
    return variables, coordinates, (steps, loss)


DIMS = {
    "theory_loss": ("tier", "cell", "step"),
    "theory_mode": ("tier", "cell", "step", "mode"),
    "theory_ignition": ("tier", "cell", "mode"),
    "mode_number": ("cell", "mode"),
    "mode_target": ("cell", "mode"),
}


@dataclass(frozen=True)
class Row:
    """What the store asks of a cell."""

    variables: dict
    fields: dict
    trained: bool = True

    @property
    def id(self):
        return hashlib.sha256(self.fields["cell"].encode()).hexdigest()[:16]

    @property
    def bucket(self):
        return self.fields["bucket"]

    def coordinates(self):
        return {name: value for name, value in self.fields.items() if name not in ("status", "diverged_step")}

    def step_grid(self):
        return self.variables["step_number"]


def datasets(cells):
    """Training and theory arrays of one bucket."""
    training, theory = {}, {}
    for name, first in cells[0].variables.items():
        tiered = name.startswith("theory")
        default = ("cell", "step", "mode") if first.ndim == 2 else ("cell", "step")
        array = (DIMS.get(name, default), np.stack([cell.variables[name] for cell in cells], axis=1 if tiered else 0))
        (theory if tiered else training)[name] = array
    ids = np.array([cell.id for cell in cells], dtype=object)
    for name, dtype in (("status", np.int8), ("diverged_step", np.int64)):
        training[name] = ("cell", np.array([cell.fields[name] for cell in cells], dtype))
    label = {
        name: ("cell", np.full(len(cells), value, dtype=object))
        for name, value in (("regime", "whitened_feedforward"), ("standing", "local"))
    }
    return xr.Dataset(training, {"cell": ids}), xr.Dataset(theory, {"cell": ids, "tier": list(TIERS), **label})


def claim(name, verdict, measured, low, high, **given):
    text = {"id": name, "statement": f"Statement of {name}.", "source": "Theorem 6", "study": "full", "note": f"How {name} was measured."}
    return text | {"verdict": verdict, "measured": measured, "low": low, "high": high} | given


CLAIMS = [
    claim("agrees", "holds", 1.25, 1.24, 1.26, predicted=1.25, accept_low=1.2, accept_high=1.3),
    claim("contradicts", "fails", 0.5, 0.5, 0.5, predicted=0.1, accept_low=-np.inf, accept_high=0.1),
    claim("unseen", "not resolved", np.nan, np.nan, np.nan),
]

NAMED = {"architecture": "mlp", "task": "digits", "spectrum": "0123", "convention": "principal"}
SPECTRUM = [{**NAMED, "number": k, "rate": k**-1.2, "share": k**-2.0, "curvature": 1.0} for k in range(1, 41)]
SPECTRAL_LAW = {**NAMED, "modes": 40, "power_law": 1, "first_mode": 2, "last_mode": 40, "decades": 1.3, "alpha1": 2.0, "alpha2": 1.2}
SEEN = {"architecture": "mlp", "task": "teacher", "optimizer": "gd", "source": "network", "cell": "0"}
DROP_COLUMNS = ("number", "tier", "mode_numbers", "t_measured", "t_predicted", "relative_error", "status")
DROPS = [
    SEEN | dict(zip(DROP_COLUMNS, values, strict=True))
    for values in (
        (1, "discrete", "1", 102.0, 100.0, 0.02, "matched"),
        (2, "discrete", "2-3", 198.0, 180.0, 0.1, "matched"),
        (3, "discrete", "", 400.0, None, None, "unmatched_plateau"),
        (4, "discrete", "4", None, 900.0, None, "unmatched_mode"),
        (5, "discrete", "5", None, 5000.0, None, "censored"),
        (1, "asymptote", "1-2", 102.0, 80.0, 0.275, "matched"),
    )
]


def write(results, rows, plateaus, exponents):
    """A results folder, through the store."""
    buckets = {}
    for row in rows:
        buckets.setdefault(row.bucket, []).append(row)
    for bucket, cells in buckets.items():
        training, theory = datasets(cells)
        summary = Summary(bucket=bucket, timings={"compile": 0.5, "run": len(cells) / 10}, device="cpu", precision="float32")
        write_shard(results / "shards" / f"{cells[0].id}.zarr.zip", training, summary)
        write_shard(results / "theory" / f"{cells[0].id}.zarr.zip", theory, summary, "theory")
    merge(results, rows, {"package_version": "0.0.test", "git_commit": "0123abc"})
    timings = [
        {"bucket": bucket, "shard": cells[0].id, "kind": "training", "stage": stage, "seconds": seconds, "cells": len(cells)}
        for bucket, cells in buckets.items()
        for stage, seconds in (("compile", 0.5), ("run", len(cells) / 10))
    ]
    table(results, "timings", timings)
    table(results, "plateaus", plateaus)
    table(results, "drops", DROPS)
    table(results, "exponents", exponents)
    table(results, "window_scan", [row for fit in exponents if fit["source"] != "theory" for row in window_rows(fit)])
    table(results, "cells", [cell_row(row) for row in rows])
    table(results, "claims", CLAIMS)
    table(results, "spectra", SPECTRUM)
    table(results, "spectral_laws", [SPECTRAL_LAW])


def window_rows(fit):
    """Exponents that rise with the window's end, in windows between five marks."""
    marks = np.geomspace(10, 1000, 5)
    shared = {name: value for name, value in fit.items() if name not in ("exponent", "predicted_finite", "status", "reason")}
    windows = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    return [
        shared
        | {"window_start": marks[i], "window_end": marks[j], "decades": (j - i) / 2, "points": 20 * (j - i)}
        | {"exponent": fit["exponent"] * (1 + 0.02 * j), "predicted_finite": fit["predicted_finite"] * (1 + 0.02 * j)}
        for i, j in windows
    ]


def table(results, name, rows):
    """Rows completed with empty values for the declared columns that they lack."""
    frame = pd.DataFrame(rows)
    for column in TABLES[name]:
        if column.name not in frame:
            frame[column.name] = {"string": "", "int64": -1}.get(column.dtype, np.nan)
    write_table(results, name, frame)


def cell_row(row):
    gap = float(np.abs(row.variables["network_mode"] - row.variables["twin_mode"]).max())
    apart = np.flatnonzero(row.variables["divergence"] > 0.1)
    return row.coordinates() | {
        "cell": row.id,
        "status": {1: "done", 2: "diverged"}[row.fields["status"]],
        "diverged_step": row.fields["diverged_step"],
        "largest_mode_gap": gap,
        "largest_divergence": float(row.variables["divergence"].max()),
        "departure_step": float(row.variables["step_number"][apart[0]]) if len(apart) else np.inf,
        "network_loss": row.variables["network_loss"][-1],
        "twin_loss": row.variables["twin_loss"][-1],
        "kernel_change": row.variables.get("twin_kernel_change", [np.nan])[-1],
    }


def plateau_rows(coordinates, ignition, theory):
    rows = []
    for source, times in ignition.items():
        predictions = dict(zip(TIERS, theory, strict=True)) | ({"twin": ignition["twin"]} if source == "network" else {})
        for tier, predicted in predictions.items():
            for k in range(len(times)):
                error = times[k] / predicted[k] - 1
                rows.append(
                    coordinates
                    | {"source": source, "tier": tier, "mode": k + 1, "t_measured": times[k], "t_predicted": predicted[k]}
                    | {"t_asymptotic": theory[0][k], "relative_error": error, "plateau_loss": 0.1, "status": "matched"}
                )
    return rows


def exponent_rows(coordinates, curve, sources=("network",)):
    steps, loss = curve
    inside = (steps > 0) & (loss < 0.3 * loss[0]) & (loss > 1e-3 * loss[0])
    slope = -np.polyfit(np.log(steps[inside]), np.log(loss[inside]), 1)[0]
    base = coordinates | {
        "ci_low": slope - 0.01,
        "ci_high": slope + 0.01,
        "window_start": steps[inside][0],
        "window_end": steps[inside][-1],
        "decades": np.log10(steps[inside][-1] / steps[inside][0]),
        "predicted_finite": slope * 1.004,
        "predicted_limit": (coordinates["alpha1"] - 1) / coordinates["alpha2"],
        "status": "ok",
    }
    return [base | {"source": source, "exponent": slope} for source in sources]


EXPERIMENTS = ("teacher", "width", "digits", "ensemble", "fourier")


class Builder:
    """Collects the cells and table rows of a study."""

    def __init__(self):
        self.rows, self.plateaus, self.exponents = [], [], []

    def network(self, bucket, *arguments, **options):
        variables, values, ignition = training_cell(f"{bucket}{arguments}", *arguments, bucket=bucket, **options)
        self.rows.append(Row(variables, values))
        self.plateaus.extend(plateau_rows(values | {"cell": self.rows[-1].id}, ignition, variables["theory_ignition"]))

    def law(self, bucket, sources, *arguments, **options):
        variables, values, curve = power_law_cell(f"{bucket}{arguments}{options}", *arguments, bucket=bucket, **options)
        self.rows.append(Row(variables, values))
        if values["seed"] == 0:
            self.exponents.extend(exponent_rows(values, curve, sources))

    def teacher(self):
        for architecture, optimizer, sigma, seed in product(LAG, RATES, (0.2, 0.01, 0.001), range(2)):
            self.network(f"{architecture}_{optimizer}", architecture, optimizer, sigma, seed)

    def width(self):
        for width, sigma in product((16, 256), (0.2, 0.01, 0.001)):
            self.network(f"mlp_{width}", "mlp", "gd", sigma, 0, width=width)

    def digits(self):
        for architecture in ("mlp", "cnn", "multi_head"):
            self.network(f"digits_{architecture}", architecture, "adam", 0.01, 0, task="digits")
            curves = self.rows[-1].variables
            # Learns 9 of 10; its twin follows until half of that.
            own = 0.5 + 0.4 * (1 - curves["network_loss"] / curves["network_loss"][0])
            curves |= {"network_test_accuracy": own, "twin_test_accuracy": np.minimum(own, 0.7)}

    def diverged(self):
        variables, values, _ = training_cell("diverged", "mlp", "gd", 0.2, 7, bucket="mlp_gd", status=2, diverged_step=12)
        self.rows.append(Row(variables, values))

    def ensemble(self):
        for alpha1, alpha2, epsilon in product((1.5, 2.0), (0.8, 1.0), (1e-6, 1e-9, 1e-12)):
            self.law("ensemble", ("network",), epsilon, alpha1, alpha2)

    def foretold(self):
        """Nothing is trained."""
        for epsilon, seed in product((1e-6, 1e-9, 1e-12), range(2)):
            self.law("foretold", (), epsilon, 1.5, 0.8, seed, train="nothing")

    def fourier(self):
        for theta, seed in product((0.0, 0.5, 1.0), range(2)):
            self.law("fourier", ("network", "twin"), 1e-6, 3.0, theta + 1.5, seed, task="fourier", theta=theta, beta=1.5)

    def paper(self):
        """What figures 3 to 5 of the paper show."""
        self.law("stairs", ("network",), 1e-5, 2.0, 0.8, task="orthogonal_features", experiment="staircase", learning_rate=0.01)
        self.law("thousand", ("network",), 1e-6, 2.0, 0.8, experiment="power_law")
        for epsilon in (1e-3, 1e-5, 1e-12):
            self.law("samples", ("network",), epsilon, 2.0, 0.8, task="orthogonal_samples", time_scale=0.01)
        for experiment, theta, seed in product(("fourier", "long"), (0.0, 1.0), range(2)):
            options = {"task": "fourier", "theta": theta, "beta": 1.5, "experiment": experiment}
            self.law("features", ("network", "twin"), 1e-6, 3.0, theta + 1.5, seed, **options)
        self.law("raw", (), 1e-4, 2.0, 0.8, task="fourier_raw", experiment="raw_input")
        for row in self.rows:
            if row.fields["task"].startswith("orthogonal"):
                clock = row.variables["theory_ignition"]
                seen = dict.fromkeys(("network", "twin"), 1.001 * clock[1])
                self.plateaus.extend(plateau_rows(row.fields | {"cell": row.id}, seen, clock))


def build(results, kinds=EXPERIMENTS):
    """A results folder holding the named experiments only."""
    builder = Builder()
    for kind in kinds:
        getattr(builder, kind)()
    write(results, builder.rows, builder.plateaus, builder.exponents)
    return results


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Every experiment."""
    return build(tmp_path_factory.mktemp("results") / "full")


@pytest.fixture
def make(tmp_path):
    """Studies that hold some experiments only."""
    return lambda *kinds: build(tmp_path / "_".join(kinds), kinds)
