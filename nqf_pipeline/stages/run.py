"""The stages as commands run them: from a results folder to files in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import xarray as xr

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages.attempts import attempt, closed, forget, hopeless, kept, settle, withdraw
from nqf_pipeline.stages.cores import enable_double_precision, prepare_worker
from nqf_pipeline.stages.locks import claim_run, only_one
from nqf_pipeline.stages.placing import Place, Work, train_cells
from nqf_pipeline.stages.provenance import git_commit, package_version, versions
from nqf_pipeline.stages.watch import watched
from nqf_pipeline.store.atomic import sealed, to_json, unsealed, write_bytes
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.shards import ShardError, Summary, joined, read_record, read_shard, write_shard
from nqf_pipeline.study.config import EngineSettings, Study
from nqf_pipeline.study.devices import device_of
from nqf_pipeline.study.document import Document, read_document
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.manifest import read_some
from nqf_pipeline.study.plan import Plan, freeze, plan_study
from nqf_pipeline.study.reading import as_stored, study_from
from nqf_pipeline.study.shards import Shard

if TYPE_CHECKING:
    from nqf_pipeline.store.merge import MergeReport

Progress = Callable[[int], None]


def planned(config: Any, files: Sequence[str | Path]) -> Plan:
    """The plan of a workflow's parsed config; `files` are the config files it came from, as the messages name them."""
    for file in files:
        read_document(_nearby(file))  # refuses what Snakemake's reader accepts, such as a key given twice
    return plan_study(study_from(config, _nearby(files[0]) if files else "config"))


def _nearby(file: str | Path) -> str:
    """A path relative to the working directory where it lies below it, so that results can be moved together with their data."""
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def begin(wish: Plan) -> Plan:
    """Be the one run of this study and fix its plan before the first job: new shards into the manifest, the config beside it."""
    claim_run(wish.layout)
    fixed = freeze(wish)
    if {shard.id for shard in fixed.shards} != {shard.id for shard in wish.shards}:
        raise InputError(f"{fixed.layout.manifest}: another run has added shards since this one was planned; start the same command again")
    stored = as_stored(fixed.study, fixed.layout.root)  # in the order of the file: a cell asked for twice belongs to the first experiment
    write_bytes(fixed.layout.study, (json.dumps(sealed(stored), allow_nan=False, indent=1, ensure_ascii=False) + "\n").encode())
    return fixed


def recorded_study(results: Path) -> Study:
    """The config of the latest run in a results folder. Raises InputError where there is none."""
    path = Layout(Path(results)).study
    try:
        document = Document(unsealed(json.loads(path.read_text(encoding="utf-8"))), str(path))
        study = Study.model_validate(document.data).read_from(document)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{results}: no study was run here ({path.name} is absent); start one with `snakemake`, or name another folder"
        ) from None
    except (ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: cannot be read by this version ({str(error).splitlines()[0]}); "
            "run the workflow again with the study's config file, which rewrites it"
        ) from error
    if study.name != path.parent.name:
        raise InputError(
            f"{path}: belongs to study `{study.name}`, and its folder is called `{path.parent.name}`; "
            "name the folder after the study, because results of two studies are never mixed"
        )
    return study


def recorded_plan(results: Path) -> Plan:
    """The plan of the latest run in a results folder."""
    return plan_study(recorded_study(results), Path(results).parent)


@contextmanager
def stage(results: Path, name: str) -> Iterator[Study]:
    """The recorded config, for the one process that may do this stage now."""
    study = recorded_study(results)
    with only_one(Layout(Path(results)), name):
        yield study


def shards_named(results: Path, names: Sequence[str]) -> list[Shard]:
    """Shards of the manifest by their ids, in this order."""
    layout = Layout(Path(results))
    known = read_some(layout.manifest, layout.root.name, names)
    if absent := [name for name in names if name not in known]:
        raise InputError(
            f"{layout.manifest}: no shard {absent[0]} (`shard` in its lines names those there are); a run adds the shards of new cells"
        )
    return relocated(results, [known[name] for name in names])


def relocated(results: Path, shards: Sequence[Shard]) -> list[Shard]:
    """The same cells, with data files where the latest config says they are: the manifest remembers where they once were."""
    if not any(cell.fingerprint for shard in shards for cell in shard.cells):
        return list(shards)
    current = recorded_plan(results).grid.cells
    return [Shard(tuple(current.get(cell.id, cell) for cell in shard.cells), shard.lane_width) for shard in shards]


def train_shard(results: Path, shard: Shard, progress: Progress = lambda done: None, cores: int = 1) -> None:
    """Train one shard and write it; nothing to do where it is written already.

    What cannot be trained (`engine.limit_hours`, `engine.attempts`) is written too, as rows with a status.
    """
    layout = Layout(Path(results))
    if not shard.trained:
        raise InputError(f"shard {shard.id}: its cells are only predicted (`train: nothing`); `nqf theory {results}` predicts them")
    with only_one(layout, shard.id):
        engine = recorded_study(results).engine
        if not _written(layout.shard(shard.id)):
            if hopeless(layout, shard.id, engine.attempts):
                _close(results, shard, Status.killed, _begun(layout, shard))
            else:
                with attempt(layout, shard.id):
                    _train(results, shard, engine, cores, progress)
        settle(layout, shard.id)


def _begun(layout: Layout, shard: Shard) -> Work:
    """What earlier attempts have left of a shard."""
    found = kept(layout, shard)
    return Work(shard.lane_width) if found is None else Work(shard.lane_width, [found.cells], earlier=found.summary)


def _train(results: Path, shard: Shard, engine: EngineSettings, cores: int, progress: Progress) -> None:
    """Train what no earlier attempt has, within the time limit."""
    layout = Layout(Path(results))
    work = _begun(layout, shard)
    known = {str(cell) for part in work.parts for cell in part["cell"].values}
    left = [cell for cell in shard.cells if cell.id not in known]
    with watched(3600 * engine.limit_hours, partial(_end, results, shard, work)):
        if left:
            train_cells(left, Place(device_of(shard.cells[0], engine), cores), work, progress)
    _write(layout.shard(shard.id), shard, xr.concat(work.parts, dim="cell").sel(cell=[cell.id for cell in shard.cells]), work)


def _write(path: Path, shard: Shard, dataset: xr.Dataset, work: Work) -> None:
    now = Summary(
        bucket=shard.bucket,
        timings={stage: round(seconds, 6) for stage, seconds in work.seconds.items()},
        device=work.device,
        precision=shard.cells[0].precision,
        threads=work.threads,
        lane_width=work.lane_width,
        versions=versions(),
    )
    write_shard(path, dataset, now if work.earlier is None else joined(work.earlier, now))


def _close(results: Path, shard: Shard, status: Status, work: Work) -> None:
    """Write a shard without training what is left of it, and say so."""
    parts = list(work.parts)  # training goes on beside a time limit
    modes = parts[0].sizes["mode"] if parts else recorded_plan(results).grid.sizes[shard.bucket].modes
    left = len(shard.cells) - sum(part.sizes["cell"] for part in parts)
    path = Layout(Path(results)).shard(shard.id)
    _write(path, shard, closed(shard.cells, status, modes, parts), work)
    print(f"warning: {path}: {left} of {len(shard.cells)} cells have status `{status.name}`. {status.remedy}", file=sys.stderr)


def _end(results: Path, shard: Shard, work: Work, signal: int | None) -> int:
    """The end of a job at its time limit (its shard is written, exit code 0) or because it was asked to (it goes on another time)."""
    layout = Layout(Path(results))
    try:
        if signal is None:
            _close(results, shard, Status.timed_out, work)
            forget(layout, shard.id)
            return 0
        parts = list(work.parts)
        if parts:
            _write(layout.stopped(shard.id), shard, xr.concat(parts, dim="cell"), work)
        done = sum(part.sizes["cell"] for part in parts)
        print(
            f"{layout.root}: the job of shard {shard.id} was asked to end (signal {signal}). {done} of {len(shard.cells)} cells are "
            "trained and kept; the same command goes on with the others.",
            file=sys.stderr,
        )
        return 128 + signal
    finally:
        withdraw(layout, shard.id)


def _written(path: Path) -> bool:
    """Whether a process that outlived its workflow finished the shard meanwhile (a workflow removes old files before it starts a job)."""
    try:
        read_shard(path)
    except ShardError:
        return False
    return True


def predict_shards(results: Path, shards: Sequence[Shard] = (), progress: Progress = lambda done: None) -> None:
    """Predictions for these shards (default: all that are wanted) where there are none of this version yet. Trains nothing."""
    layout, shards = Layout(Path(results)), shards or recorded_plan(results).shards
    prepare_worker()
    enable_double_precision()
    from nqf_pipeline.stages.theory import predict_cells

    for shard in shards:
        path = layout.theory(shard.id)
        with only_one(layout, f"theory-{shard.id}"):  # jobs of another cut may hold the same shards
            if not _predicted(path):
                begun = perf_counter()
                dataset = predict_cells(shard.cells)
                summary = Summary(bucket=shard.bucket, timings={"predict": perf_counter() - begun}, versions=versions())
                write_shard(path, dataset, summary, "theory")
        progress(1)


def _predicted(path: Path) -> bool:
    try:
        return read_record(path).versions == versions()
    except ShardError:
        return False


def merge_study(results: Path, allow_partial: bool = False) -> MergeReport:
    """All shards into the one store."""
    from nqf_pipeline.store.merge import merge

    wanted = recorded_plan(results)
    attributes = {
        "study": to_json({key: value for key, value in wanted.study.as_given().items() if key not in ("analysis", "report")}),
        "package_version": package_version(),
        "git_commit": git_commit(),
    }
    with only_one(wanted.layout, "merge"):
        known = {shard.id for shard in wanted.manifest.shards}
        return merge(wanted.layout.root, wanted.cells, attributes, allow_partial, known)
