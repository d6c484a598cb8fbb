"""`nqf predict`: what theory says about every cell of a study, from architecture, data and start alone. Trains and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel
from threadpoolctl import threadpool_limits

from nqf_pipeline.stages.scaling import scaling
from nqf_pipeline.stages.spectra import Spectra
from nqf_pipeline.stages.theory import cell_inputs
from nqf_pipeline.store.schema import TIERS
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.config import AnalysisSettings
from nqf_pipeline.study.grid import Grid, build_grid
from nqf_pipeline.study.reading import read_study
from nqf_pipeline.theory.events import TRUSTED
from nqf_pipeline.theory.noise import batch_noise
from nqf_pipeline.theory.predict import CellInputs, Prediction, TierCurve, predict
from nqf_pipeline.theory.quantiles import LEVELS, expected_seed, ignition_spread
from nqf_pipeline.theory.sudden import THRESHOLD, Verdict, half_time, sudden_below, sudden_in_the_limit, verdict

Document = dict[str, Any]
SHOWN_MODES = 4
"""Ignition steps shown in the table."""
TOGETHER = 48
"""Cells predicted in one call: discrete curves of a thousand modes take 2 MB each while they are made."""


@dataclass(frozen=True)
class Forecast:
    """A cell with what `nqf predict --json` prints about it."""

    cell: Cell
    document: Document


@threadpool_limits.wrap(limits=1)  # many small products: threads only wait for each other
def predict_study(config: Path | str) -> tuple[list[Forecast], Grid]:
    """Forecasts in the order of the cells, and the grid with its warnings."""
    study = read_study(config)
    grid = build_grid(study)
    found: dict[str, Document] = {}
    spectra = Spectra()
    for settings in batches(list(grid.cells.values())):
        found.update(_documents(settings, study.analysis, spectra))
    return [Forecast(cell, found[cell.id]) for cell in grid.cells.values()], grid


def setting(cell: Cell) -> Any:
    """What the seeds of one setting share."""
    return cell.model_copy(update={"seed": 0, "experiment": ""})


def batches(cells: Sequence[Cell]) -> Iterator[list[list[Cell]]]:
    """Settings with all their seeds; those of one bucket together, whose systems have equal shapes and often equal data."""
    settings: dict[Any, list[Cell]] = {}
    for cell in cells:
        settings.setdefault(setting(cell), []).append(cell)
    batch: list[list[Cell]] = []
    for seeds in sorted(settings.values(), key=lambda seeds: (seeds[0].bucket, seeds[0].data_id)):
        if batch and sum(map(len, batch)) + len(seeds) > TOGETHER:
            yield batch
            batch = []
        batch.append(seeds)
    if batch:
        yield batch


def _documents(settings: list[list[Cell]], analysis: AnalysisSettings, spectra: Spectra) -> dict[str, Document]:
    cells = [cell for seeds in settings for cell in seeds]
    inputs = [cell_inputs(cell) for cell in cells]
    predictions = predict(inputs, {"event", "flow", "discrete"})
    found, start = {}, 0
    for seeds in settings:
        part = slice(start, start := start + len(seeds))
        shared = scaling(seeds, inputs[part], predictions[part], analysis.window)
        for cell, given, prediction in zip(seeds, inputs[part], predictions[part], strict=True):
            own = CellForecast(given, prediction).document()
            found[cell.id] = {**cell.coordinates(), **own, **shared, "spectrum": spectra.of(cell, given.problem)}
    return found


@dataclass(frozen=True)
class CellForecast:
    """One cell's prediction, read out."""

    cell: CellInputs
    prediction: Prediction

    def document(self) -> Document:
        """Plain values; lists are ordered by mode. Not a number: no statement; infinity: never."""
        return {
            "regime": self.prediction.regime.name,
            "standing": self.prediction.standing,
            "reason": self.prediction.reason,
            "way_out": way_out(self.cell, self.prediction) if not self.tier or (self.clock_error or 0) > TRUSTED else "",
            "timing_error": self.prediction.regime.timing_error,
            "tier": self.tier,
            "clock_error": self.clock_error,
            **self._sudden(),
            **self._ignition(),
            "plateau_losses": _list(self.prediction.plateau_loss),
            "curve": self._curve(),
        }

    @cached_property
    def tier(self) -> str | None:
        """The finest tier there is."""
        return next((tier for tier in reversed(TIERS) if tier in self.prediction.tiers), None)

    @property
    def clock_error(self) -> float | None:
        """Relative error that an event clock estimates of itself, up to the end of the run; None where no events are predicted."""
        events = self.prediction.events
        return None if events is None else events.error(float(self.cell.optimizer.full_steps(self.cell.step_number[-1])))

    @cached_property
    def _finest(self) -> TierCurve | None:
        return None if self.tier is None else self.prediction.tiers[self.tier]

    def _ignition(self) -> Document:
        if self._finest is None:
            return {
                "mode_number": [],
                "ignition_times": [],
                "ignition_steps": [],
                "ignition": [],
                "ignition_quantiles": None,
                "batch_noise": None,
            }
        steps = self._finest.ignition
        flow = self.prediction.tiers.get("flow", self._finest).ignition
        time = np.where(np.isinf(flow), np.inf, self.cell.optimizer.flow_time(flow))
        said = np.select([np.isnan(steps), np.isinf(steps)], ["no statement", "never"], "predicted")
        return {
            "mode_number": _list(self.cell.problem.modes.number),
            "ignition_times": _list(time),
            "ignition_steps": _list(steps),
            "ignition": _list(said),
            "ignition_quantiles": self._quantiles(),
            "batch_noise": self._batch_noise(),
        }

    def _batch_noise(self) -> Document | None:
        """What minibatches do to the full batch's clock, to leading order; known for white layers."""
        if self._finest is None or self.prediction.regime.name != "whitened_feedforward":
            return None
        found = batch_noise(self.cell.problem, self.cell.optimizer, self._finest.ignition)
        return None if found is None else {"shift": _list(found.shift), "spread": _list(found.spread), "floor": found.floor}

    def _quantiles(self) -> Document | None:
        """In steps, over draws of the weights at these data; only closed regimes know them."""
        modes, finest = self.prediction.modes, self._finest
        if modes is None or finest is None:
            return None
        spread = ignition_spread(self.cell, self.prediction.regime, modes, finest.ignition)
        levels = {f"q{round(100 * level):02d}": _list(steps) for level, steps in zip(LEVELS, spread.level, strict=True)}
        return {"mean": _list(spread.mean), **levels, "freedom": _list(spread.freedom)}

    def _sudden(self) -> Document:
        found = self._verdict()
        if found is None:
            return {"sudden": None, "separation_ratios": [], "plateau_count": None, "sudden_threshold": THRESHOLD, **_limit(None, None)}
        return {
            "sudden": found.sudden,
            "separation_ratios": _list(found.separation),
            "plateau_count": found.plateaus,
            "sudden_threshold": THRESHOLD,
            **_limit(*self._crossover()),
        }

    def _verdict(self) -> Verdict | None:
        end = float(self.cell.optimizer.flow_time(self.cell.step_number[-1]))
        events = self.prediction.events
        if self.prediction.modes is not None:
            rate, full, seed = self._logistic
            return verdict(half_time(np.log(seed) - np.log(full), rate), rate, end)
        if events is not None:
            return verdict(events.step * self.cell.optimizer.time_scale, np.array([invader.rate for invader in events.invaders]), end)
        return None

    @cached_property
    def _grows(self) -> np.ndarray:
        """Modes, watched or not, that ever ignite."""
        modes = self.prediction.modes
        assert modes is not None
        return (modes.led(modes.rate) > 2 * self.cell.optimizer.weight_decay) & (modes.led(modes.seed) > 0)

    @cached_property
    def _logistic(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rate, z(inf), z(0)) of the modes that grow."""
        modes = self.prediction.modes
        assert modes is not None
        rate, saturation, seed = (modes.led(array)[self._grows] for array in (modes.rate, modes.saturation, modes.seed))
        rate = rate - 2 * self.cell.optimizer.weight_decay
        return rate, rate / saturation, seed

    def _crossover(self) -> tuple[bool | None, float | None]:
        """(verdict for epsilon -> 0, ln of the epsilon below which learning is sudden) at expected seeds; nothing is known of events."""
        modes = self.prediction.modes
        if modes is None:
            return None, None
        rate, full, _ = self._logistic
        typical = expected_seed(self.cell, self.prediction.regime, modes)[self._grows]
        return sudden_in_the_limit(rate), sudden_below(rate, np.log(typical / self.cell.epsilon / full))

    def _curve(self) -> Document | None:
        if self._finest is None:
            return None
        steps = self.cell.step_number
        return {"step": _list(steps), "time": _list(self.cell.optimizer.flow_time(steps)), "loss": _list(self._finest.loss)}


def _limit(limit: bool | None, log_epsilon: float | None) -> Document:
    return {"sudden_limit": limit, "sudden_below_log10_epsilon": None if log_epsilon is None else log_epsilon / float(np.log(10))}


def way_out(cell: CellInputs, prediction: Prediction) -> str:
    """What a user can do where no tier is given, or where its clock is not to be trusted."""
    train = "run the study: it integrates the twin beside the network, and the table plateaus has the ignition steps of both"
    if prediction.tiers:
        return (
            f"events overlap, modes start near their height or move on before they reach it (estimated error above {TRUSTED:.0%}): {train}"
        )
    if not cell.optimizer.in_linear_span:
        return f"{train}; gd, sgd and momentum can be predicted"
    if not cell.architecture.smooth:
        return "use an activation that is smooth at zero, such as tanh; no quadratic form, and so no twin, stands for this network"
    return f"{train}; fewer steps or samples, and batches from a fixed set of samples, can be predicted"


def _list(values: Any) -> list[Any]:
    return [] if values is None else np.asarray(values).tolist()


# ---- the table


def table(forecasts: Sequence[Forecast]) -> pd.DataFrame:
    """One row a setting: medians over its seeds. Of architectures, tasks and optimizers only what differs between rows is named."""
    settings: dict[Any, list[Forecast]] = {}
    for forecast in forecasts:
        settings.setdefault(setting(forecast.cell), []).append(forecast)
    rows = [_row(seeds) for seeds in settings.values()]
    for part in ("architecture", "task", "optimizer"):
        names = short_labels([getattr(seeds[0].cell, part) for seeds in settings.values()])
        rows = [{**row, part: name} for row, name in zip(rows, names, strict=True)]
    return pd.DataFrame(rows)


def short_labels(models: Sequence[BaseModel]) -> list[str]:
    """`mlp`, or `mlp width=16` where other models of this kind have another width."""
    values: dict[tuple[str, str], set[Any]] = {}
    for model in models:
        for name, value in model:
            values.setdefault((_kind(model), name), set()).add(value)
    named = []
    for model in models:
        telling = [(name, value) for name, value in model if len(values[_kind(model), name]) > 1]
        told = [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in telling]
        named.append(" ".join([_kind(model), *told]))
    return named


def _kind(model: BaseModel) -> str:
    return str(getattr(model, "kind"))  # noqa: B009


def _row(seeds: list[Forecast]) -> Document:
    first = seeds[0].document
    return {
        **dict.fromkeys(("architecture", "task", "optimizer")),
        "sigma": f"{seeds[0].cell.sigma:.2g}",
        "seeds": len(seeds),
        "regime": first["regime"],
        "standing": first["standing"],
        "tier": first["tier"] or "-",
        "sudden": _share([seed.document["sudden"] for seed in seeds]),
        "ignition steps": _steps([seed.document["ignition_steps"] for seed in seeds]),
        "exponent": _exponent(first),
    }


def _share(verdicts: list[bool | None]) -> str:
    known = [value for value in verdicts if value is not None]
    if not known:
        return "-"
    return {0: "no", len(known): "yes"}.get(sum(known), f"{sum(known)}/{len(known)}")


def _steps(seeds: list[list[float]]) -> str:
    if not seeds[0]:
        return "-"
    shown = np.median(np.array(seeds)[:, :SHOWN_MODES], axis=0)
    words = ["?" if np.isnan(step) else "never" if np.isinf(step) else f"{step:.0f}" for step in shown]
    return " ".join(words) + (" ..." if len(seeds[0]) > SHOWN_MODES else "")


def _exponent(document: Document) -> str:
    finite, limit = document["exponent_finite"], document["exponent_limit"]
    if np.isnan(limit) and np.isnan(finite):
        return "-"
    here = "?" if np.isnan(finite) else f"{finite:.2f}" + ("" if document["exponent_status"] == "ok" else "?")
    return here if np.isnan(limit) else f"{here} (limit {limit:.2f})"
