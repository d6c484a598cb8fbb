"""The project's frame: dependencies that agree, layers that point downward, no trace of one machine."""

from __future__ import annotations

import ast
import difflib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import get_args

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nqf_pipeline.cli import app
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.study.plan import plan_study
from nqf_pipeline.study.reading import study_from
from nqf_pipeline.tasks import TASKS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nqf_pipeline"
LAYERS = ("forms", "models", "tasks", "dynamics", "theory", "study", "store", "analysis", "report", "stages", "cli")
JAX_FREE = ("models", "tasks", "study", "store", "report")
COMPANIONS = {"distributed", "markupsafe", "pydantic-core"}
"""Parts of dask, jinja2 and pydantic, which pin them."""
LOADERS = {"lazy_loader.load", "importlib.import_module", "import_module"}
CONDA_NAMES = {"duckdb": "python-duckdb", "matplotlib": "matplotlib-base", "seaborn": "seaborn-base", "snakemake": "snakemake-minimal"}


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements(*extras: str) -> list[Requirement]:
    """Core requirements with those of the extras; extras alone when the first is named `only`."""
    core = [] if extras[:1] == ("only",) else project()["dependencies"]
    named = [line for extra in extras if extra != "only" for line in project()["optional-dependencies"][extra]]
    return [Requirement(line) for line in core + named]


def python_files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*.py")) if "__pycache__" not in path.parts)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import in a file, inside functions too, and of modules loaded lazily by name."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in LOADERS and isinstance(node.args[0], ast.Constant):
            yield node.lineno, str(node.args[0].value)


def layer(module: str) -> str | None:
    """The layer a module belongs to; None for the package itself, its errors and everything outside it."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "nqf_pipeline" and parts[1] in LAYERS else None


def test_conda_environment_matches_pyproject() -> None:
    wanted = [f"python{project()['requires-python']}", "pip"]
    for requirement in requirements("dev"):
        bounds = sorted(map(str, requirement.specifier), key=lambda bound: bound.startswith("<"))
        wanted.append(CONDA_NAMES.get(requirement.name, requirement.name) + ",".join(bounds))
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    found = [entry for entry in listed if isinstance(entry, str)]
    diff = difflib.unified_diff(sorted(wanted), sorted(found), "pyproject.toml (conda's names)", "environment.yml", lineterm="", n=0)
    assert sorted(wanted) == sorted(found), "\n" + "\n".join(diff)
    assert {"pip": ["--editable ."]} in listed


@pytest.mark.parametrize(("lock", "extras"), [("requirements.lock", ("dev",)), ("requirements-bench.lock", ("only", "bench"))])
def test_lock_satisfies_the_ranges(lock: str, extras: tuple[str, ...]) -> None:
    lines = [line for line in (ROOT / lock).read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[^ ]+( ; .+)?", line) for line in lines), "a lock holds exact versions and nothing else"
    pins = {canonicalize_name(line.split("==")[0]): line.split("==")[1].split(" ")[0] for line in lines}
    for requirement in requirements(*extras):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{lock} lacks {requirement.name}: run `make lock`"
        assert requirement.specifier.contains(version), f"{lock} has {requirement.name} {version}, outside {requirement.specifier}"


def test_every_import_is_a_declared_dependency() -> None:
    declared = {canonicalize_name(requirement.name) for requirement in requirements("cluster")} | COMPANIONS
    distributions = packages_distributions()
    undeclared = []
    for path in python_files(PACKAGE):
        for line, module in imports(path):
            top = module.split(".")[0]
            if top in sys.stdlib_module_names or top == "nqf_pipeline":
                continue
            names = {canonicalize_name(name) for name in distributions.get(top, [top])}
            if not names & declared:
                undeclared.append(f"{path.relative_to(ROOT)}:{line} imports {top}")
    assert not undeclared, "\n".join(undeclared)


def test_layers_import_only_downward() -> None:
    upward = []
    for path in python_files(PACKAGE):
        here = layer(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for line, module in imports(path):
            there = layer(module)
            if here and there and LAYERS.index(there) > LAYERS.index(here):
                upward.append(f"{path.relative_to(ROOT)}:{line} imports {module}: {there} lies above {here}")
    assert not upward, "\n".join(upward)


def test_every_module_belongs_to_a_layer() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if (path.is_dir() and path.name != "__pycache__") or path.suffix == ".py"}
    assert parts - {"__init__", "errors"} <= set(LAYERS), "a new layer belongs in docs/architecture.md and in LAYERS here"


def test_only_the_workflow_knows_snakemake() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}" for path in python_files(PACKAGE) for line, module in imports(path) if "snakemake" in module
    ]
    assert not found, f"the package must run without Snakemake: {found}"


def test_snakefile_is_short() -> None:
    lines = (ROOT / "workflow" / "Snakefile").read_text().splitlines()
    assert len(lines) < 40, "rules belong in workflow/rules/, logic in the package"


def test_profile_of_a_cluster_runs_jobs_like_the_default_one() -> None:
    profiles = ROOT / "workflow" / "profiles"
    default, slurm = (yaml.safe_load((profiles / name / "config.yaml").read_text()) for name in ("default", "slurm"))
    assert default == {key: slurm.get(key) for key in default}


def test_planning_and_analysis_never_import_jax() -> None:
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for name in JAX_FREE for path in python_files(PACKAGE / name)]
    # `lazy_loader` puts a placeholder for jax into sys.modules; jaxlib appears when it is really imported.
    code = (
        "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n    assert 'jaxlib' not in sys.modules, name"
    )
    done = subprocess.run([sys.executable, "-c", code, *modules], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def tracked_texts() -> Iterator[tuple[str, str]]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and path.suffix not in {".png", ".npz", ".zip", ".parquet"}:
            yield name, path.read_text(errors="replace")


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    # Each pattern holds a one-letter class so that this file does not match itself.
    hosts = r"py[p]i\.org|pythonh[o]sted\.org|an[a]conda\.(?:org|com)|registry\.npmj[s]|crate[s]\.io|proxy\.gol[a]ng"
    folders = r"(?<![\w.)}\]~*:/-])/(?:work|tmp|root|home|Users|opt)/\w"
    pattern = re.compile(f"{hosts}|{folders}")
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_documented_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "config").rglob("*.y*ml")),
    ]
    named = {
        (page.name, target) for page in pages for target in re.findall(r"(?:`|^ {4}|^# )make ([a-z-]+)", page.read_text(), re.MULTILINE)
    }
    assert named, "the README shows at least one make target"
    assert not [entry for entry in sorted(named) if entry[1] not in targets]


def test_make_targets_are_no_files() -> None:
    text = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert set(phony.split()) == set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))


def test_commands_for_people_are_in_the_readme() -> None:
    """The others are stages, which the workflow calls."""
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    stages = {name for file in ROOT.glob("workflow/rules/*.smk") for name in re.findall(r"\bnqf ([a-z]+)", file.read_text())}
    told = set(re.findall(r"^ {4}nqf ([a-z]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert known - stages == told - stages


def test_everything_in_a_results_folder_is_explained() -> None:
    names = set(re.findall(r'self\.root / "([a-z._]+)"', (ROOT / "nqf_pipeline/study/layout.py").read_text()))
    told = (ROOT / "results/README.md").read_text()
    assert {"attempts", "stopped", "shards"} <= names
    assert not [name for name in sorted(names) if not re.search(rf"`\.?{re.escape(name)}/?`", told)]


def test_documented_commands_exist() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "config").rglob("*.y*ml"))]
    named = {(page.name, name) for page in pages for name in re.findall(r"(?:`|^ {4})nqf ([a-z]+)", page.read_text(), re.MULTILINE)}
    assert ("README.md", "plan") in named
    assert not [entry for entry in sorted(named) if entry[1] not in known]


def test_the_study_in_the_readme_can_be_planned() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    plan = plan_study(study_from(yaml.safe_load(text), "README.md"))
    assert len(plan.cells) == 2 * 1 * 2 * 2 * 4
    assert len(text.splitlines()) <= 15


def test_kinds_in_the_readme_are_all_there_are() -> None:
    lists = re.findall(
        r"^- \*\*(?:Architectures|Tasks|Optimizers)\*\*: (.*?\.)\n(?=-|\n)", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    architectures, tasks, optimizers = (set(re.findall(r"`([a-z_]+)`", text)) for text in lists)
    assert architectures == set(ARCHITECTURES)
    assert tasks == set(TASKS)
    assert optimizers == set(get_args(Optimizer.model_fields["kind"].annotation))
