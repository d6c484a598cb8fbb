"""The command line. Exit codes: 0 fine, 1 the work failed, 2 bad input (the message names file and key)."""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from nqf_pipeline.errors import InputError, WorkError
from nqf_pipeline.stages.starting import quick_start
from nqf_pipeline.store.atomic import unwritable

app = typer.Typer(
    help="Neural quadratic forms: plan a study, run its stages, look at its results. The stages (train, theory, merge, analyse, figures, "
    "report) are what the workflow calls; `snakemake --cores all` runs them all.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console(width=None if sys.stdout.isatty() else 1000)  # nothing is folded in a file or a pipe
messages = Console(stderr=True)

Config = Annotated[Path, typer.Argument(help="the study's YAML file")]
Results = Annotated[
    Path,
    typer.Argument(parser=lambda given: named(Path(given)), metavar="RESULTS", help="results folder of a study, such as results/default"),
]
AsJson = Annotated[bool, typer.Option("--json", help="exactly one JSON document on standard output")]


def main() -> None:
    """Entry point."""
    with readable_errors():
        app()


@contextmanager
def readable_errors() -> Iterator[None]:
    """What a user can act on is said without a traceback, and ends the process with its exit code."""
    try:
        yield
    except (InputError, WorkError) as error:
        _stop(error)
    except OSError as error:
        known = unwritable(Path(error.filename or "."), error)
        if known is None:
            raise
        _stop(known)


def _stop(error: InputError | WorkError) -> NoReturn:
    messages.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(2 if isinstance(error, InputError) else 1)


def named(folder: Path) -> Path:
    """A folder spelt with its name, which is the study's (`.` and `..` have none)."""
    return folder.resolve() if folder.name in ("", "..") else folder


def show_json(document: Any) -> None:
    """One JSON document; not-a-number becomes null."""
    print(json.dumps(_strict(document), allow_nan=False, indent=2, ensure_ascii=False))


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error; silent where that is not a terminal."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


def show_warnings(warnings: Iterable[str]) -> None:
    """What to know before a study runs, on standard error."""
    for warning in warnings:
        messages.print(f"warning: {warning}", markup=False, style="yellow", highlight=False, soft_wrap=True)


def facts(pairs: dict[str, Any]) -> None:
    """A two-column table."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in pairs.items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
    console.print(table)


@app.command()
def plan(
    config: Config = Path("config/config.yaml"),
    results: Path = Path("results"),
    pilot: Annotated[bool, typer.Option(help="train a second of every bucket that is new, and cut jobs by what that took")] = False,
    as_json: AsJson = False,
) -> None:
    """What a study would run and why: cells, jobs, time, bytes, files. Runs and writes nothing (with --pilot: a table of rates)."""
    from nqf_pipeline.stages import overview
    from nqf_pipeline.stages.pilot import comparison, prepare_pilot, time_buckets, untimed
    from nqf_pipeline.stages.reasons import reasons
    from nqf_pipeline.study.plan import plan_file

    if pilot:
        prepare_pilot(config, results)
    wish = plan_file(config, results)
    if pilot:
        with bar("buckets", len(untimed(wish))) as progress:
            wish = time_buckets(wish, progress)
    why, timed = reasons(wish), comparison(wish)
    if as_json:
        show_json(wish.summary() | {"reasons": [asdict(reason) for reason in why], "pilot": timed})
        return
    facts(overview.overview(wish))
    console.print()
    show_rows(overview.running(why))
    if not overview.running(why):
        console.print("nothing to run: all is done")
    for note in overview.notes(why):
        console.print(f"- {note}", markup=False, highlight=False, soft_wrap=True)
    if pilot:
        show_rows(timed)
    show_warnings(wish.warnings)


@app.command()
def predict(config: Config = Path("config/config.yaml"), as_json: AsJson = False) -> None:
    """What theory says before training: sudden or gradual, when each mode ignites, which power law. Trains and writes nothing."""
    from nqf_pipeline.stages.predict import predict_study, table

    forecasts, grid = predict_study(config)
    if as_json:
        show_json([forecast.document for forecast in forecasts])
        return
    print(table(forecasts).to_string(index=False))
    for reason, number in Counter(f"{f.document['reason']}. {f.document['way_out']}" for f in forecasts if not f.document["tier"]).items():
        console.print(f"- no tier for {number} cells: {reason}", markup=False, highlight=False, soft_wrap=True)
    show_warnings(grid.warnings)


@app.command()
@quick_start()
def train(
    results: Results,
    shard: Annotated[str, typer.Argument(help="id of the shard")],
    cores: Annotated[int, typer.Option(min=1, help="processes that share the shard, one core each")] = 1,
) -> None:
    """Train the cells of one shard, networks and twins."""
    from nqf_pipeline.stages.compiled import keep_programs
    from nqf_pipeline.stages.cores import flag_early
    from nqf_pipeline.stages.run import shards_named, train_shard

    flag_early()
    keep_programs(results)
    (chosen,) = shards_named(results, [shard])
    with bar("cells", len(chosen.cells)) as progress:
        train_shard(results, chosen, progress, cores)


@app.command()
@quick_start()
def theory(
    results: Results,
    shards: Annotated[list[str] | None, typer.Argument(help="ids of shards, or files of their predictions; all if none is given")] = None,
) -> None:
    """Predict the cells of a study; trains nothing."""
    from nqf_pipeline.stages.cores import flag_early
    from nqf_pipeline.stages.run import predict_shards, recorded_plan, shards_named

    flag_early()
    chosen = shards_named(results, [Path(shard).stem for shard in shards]) if shards else recorded_plan(results).shards
    with bar("shards", len(chosen)) as progress:
        predict_shards(results, chosen, progress)


@app.command()
@quick_start()
def merge(
    results: Results, allow_partial: Annotated[bool, typer.Option(help="merge what there is; absent cells get status missing")] = False
) -> None:
    """Merge trained and predicted shards into trajectories.zarr."""
    from nqf_pipeline.stages.run import merge_study

    done = merge_study(results, allow_partial)
    kept = f"; {done.carried_over} of {done.buckets} buckets did not change" if done.carried_over else ""
    console.print(f"{done.cells - done.missing} of {done.cells} cells in {done.files} files, {done.bytes / 1e6:.1f} MB{kept}")


@app.command()
def analyse(results: Results) -> None:
    """Measure ignition times, exponents and departures; write the tables."""
    from nqf_pipeline.analysis.run import analyse as work
    from nqf_pipeline.stages.run import recorded_plan, stage
    from nqf_pipeline.stages.spectra import write_spectra

    with stage(results, "analyse") as study:
        write_spectra(results, recorded_plan(results).cells)
        work(results, study.analysis, study.engine.dask)


@app.command()
def figures(results: Results) -> None:
    """Draw the figures of a study."""
    from nqf_pipeline.analysis.workers import granted
    from nqf_pipeline.report.figures import draw
    from nqf_pipeline.stages.run import stage

    gc.freeze()  # what imports leave behind stays: not searched for rubbish again after every few curves
    with stage(results, "figures") as study:
        for path in draw(results, study.report, min(study.engine.dask.cores, len(granted()))):
            console.print(str(path), highlight=False, soft_wrap=True)


@app.command()
def report(results: Results) -> None:
    """Write the study's page, report.html."""
    from nqf_pipeline.report.page import write
    from nqf_pipeline.stages.run import stage

    with stage(results, "report") as study:
        console.print(str(write(results, study.report)), highlight=False, soft_wrap=True)


@app.command()
def status(results: Results, as_json: AsJson = False) -> None:
    """How far a study is: cells by status, seconds spent, what is running."""
    from nqf_pipeline.stages.status import often, study_status

    found = study_status(results)
    if as_json:
        show_json(found)
        return
    facts({"cells": found["cells"], **found["counts"], **{f"seconds in {k}": round(v, 1) for k, v in found["seconds"].items()}})
    lines = [f"running: {shard['shard']} ({shard['bucket']}), {shard['seconds']:.0f} s so far" for shard in found["running"]]
    lines += [f"in the queue: {job['job']}  {job['state']}  {job['elapsed']}  {job['work']}" for job in found["queue"] or []]
    for name, times in found["ended_from_outside"].items():
        lines.append(f"ended from outside {often(times)}: {name} (`nqf skip {results} {name}` goes on without it)")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def skip(
    results: Results,
    shards: Annotated[list[str] | None, typer.Argument(help="ids of shards (default: all whose jobs were ended from outside)")] = None,
) -> None:
    """Let the next run finish a study without some shards: their cells get status killed, and `nqf retry` takes that back."""
    from nqf_pipeline.stages import attempts
    from nqf_pipeline.stages.run import recorded_plan

    chosen = attempts.give_up(results, recorded_plan(results), shards or [])
    for shard in chosen:
        console.print(f"given up: {shard}", markup=False, highlight=False)
    console.print("Start the workflow again: it finishes the study without them." if chosen else "no shard was ended from outside")


@app.command()
def retry(results: Results) -> None:
    """Let the next run train again what timed out or was given up; trained cells are kept."""
    from nqf_pipeline.stages import attempts
    from nqf_pipeline.stages.run import recorded_study
    from nqf_pipeline.study.layout import Layout

    recorded_study(results)  # refuses a folder that is none
    chosen = attempts.retry(Layout(results))
    for shard in chosen:
        console.print(f"to be trained again: {shard}", markup=False, highlight=False)
    console.print("Start the workflow again." if chosen else "no shard was given up or closed")


@app.command()
def orphans(
    results: Results,
    cancel: Annotated[bool, typer.Option(help="cancel them")] = False,
    wait: Annotated[bool, typer.Option(help="wait until they end; the next run keeps what they finish")] = False,
    as_json: AsJson = False,
) -> None:
    """Jobs that a killed run left in the SLURM queue. Before the next run cancel them, or wait for them: it would do the same work."""
    from nqf_pipeline.stages import orphans as stage

    if cancel and wait:
        raise InputError("nqf orphans: --cancel ends the jobs and --wait lets them finish; give one of the two")
    found = stage.orphans(results)
    if cancel:
        stage.cancel(results, found)
    elif wait:
        stage.wait(results, found, lambda left: messages.print(f"waiting for {left} jobs"))
    if as_json:
        show_json([job.document() for job in found])
        return
    done = " cancelled" if cancel else " ended" if wait else ""
    for job in found:
        console.print(f"{job.job}  {job.state}  {job.elapsed}  {job.work}{done}", markup=False, highlight=False)
    if not found:
        console.print("no orphans")
    elif not done:
        console.print("Cancel them with --cancel, or wait for them with --wait, before the next run.")


@app.command()
def query(
    results: Results,
    table: Annotated[str, typer.Argument(help="exponents, plateaus, cells, timings or claims")],
    where: Annotated[str | None, typer.Option(help="SQL condition, for example \"architecture = 'mlp' and sigma < 0.01\"")] = None,
    columns: Annotated[str | None, typer.Option(help="comma-separated columns")] = None,
    format: Annotated[str, typer.Option(help="table, csv or json")] = "table",  # noqa: A002  (the option's name)
    as_json: AsJson = False,
) -> None:
    """Rows of a study's table."""
    from nqf_pipeline.store.query import query as ask

    if format not in ("table", "csv", "json"):
        raise InputError(f"--format {format}: allowed are table, csv, json")
    rows = ask(results, table, where, [c.strip() for c in columns.split(",")] if columns else None)
    if as_json or format == "json":
        show_json(rows.to_dict(orient="records"))
    elif format == "csv":
        print(rows.to_csv(index=False), end="")
    else:
        print(rows.to_string(index=False))


@app.command()
def check(
    target: Annotated[str | None, typer.Argument(help="an architecture's name, or file.py:function, which is run")] = None,
    unit_size: Annotated[int | None, typer.Option(help="parameters of one unit: rows of W")] = None,
    width: Annotated[int | None, typer.Option(help="units: columns of W (default 8)")] = None,
    inputs: Annotated[str | None, typer.Option(help="entries of one input x, such as 20, or its shape, such as 20x16")] = None,
    scaling: Annotated[bool, typer.Option(help="also how g, A and B depend on the width")] = False,
    names: Annotated[bool, typer.Option("--list", help="the architectures that can be named")] = False,
    as_json: AsJson = False,
) -> None:
    """Is a module a quadratic form of its weights near zero, and which one? Its conditions, measured."""
    from nqf_pipeline.stages import check as stage

    if names:
        show_json(stage.names()) if as_json else print("\n".join(stage.names()))
        return
    if target is None:
        raise InputError("nqf check: name an architecture (nqf check --list) or a function of your own, file.py:function")
    found = stage.check_target(target, unit_size, width, inputs, scaling)
    if as_json:
        show_json(found)
        return
    words = {True: "yes", False: "no", None: "-"}
    facts({name: words.get(value, value) if isinstance(value, bool | None) else value for name, value in stage.summary(found).items()})
    for reason in found["reasons"]:
        console.print(f"- {reason}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def fit(
    file: Annotated[Path, typer.Argument(help="a loss curve: CSV, JSON lines, a trainer's JSON, .npy, .npz or zarr")],
    time: Annotated[str | None, typer.Option(help="column of times (default: found by name)")] = None,
    loss: Annotated[str | None, typer.Option(help="column of losses (default: all that are named like one)")] = None,
    figure: Annotated[Path | None, typer.Option(help="where the figure goes, .png or .svg (default: FILE's name .fit.png, here)")] = None,
    as_json: AsJson = False,
) -> None:
    """Exponent, floor, plateaus and drops of any loss curve, with window, interval and what was found on the way."""
    from nqf_pipeline.stages import fit as stage

    stage.check_figure(figure or stage.default_figure(file))
    found = stage.fit_file(file, time, loss)
    if as_json:
        show_json(stage.document(file, found))
    else:
        show_fit(stage.rows(found), [*stage.reasons(found), *stage.events(found), *stage.evidence(found)])
        for curve, note in stage.remarks(found):
            console.print(f"- {curve + ': ' if curve else ''}{note.message} [{note.code}]", markup=False, highlight=False, soft_wrap=True)
    if figure or not as_json:
        path = stage.draw(file, found, figure or stage.default_figure(file))
        (messages if as_json else console).print(f"figure: {path}", markup=False, highlight=False, soft_wrap=True)


def show_rows(rows: list[dict[str, Any]]) -> None:
    """A table with a heading; nothing where there are no rows."""
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)


def show_fit(rows: list[dict[str, str]], lines: list[str]) -> None:
    """One curve as facts, several as a table; then reasons, plateaus and drops."""
    if len(rows) == 1:
        facts(dict(rows[0]))
    else:
        show_rows(rows)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def rerun(
    results: Results, cell: Annotated[str, typer.Argument(help="id of a cell, or its first characters")], as_json: AsJson = False
) -> None:
    """Replay one cell alone and compare it with the stored run; changes nothing."""
    from nqf_pipeline.stages.rerun import rerun_cell

    found = rerun_cell(results, cell)
    show_json(found) if as_json else facts(found)


if __name__ == "__main__":
    main()
