"""The report: one self-contained HTML page from saved figures and tables."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml
from markupsafe import Markup

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.losses import convention
from nqf_pipeline.report.claims import finding_rows, summary
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.names import GRID, HEADINGS, INK, MUTED, PAPER
from nqf_pipeline.report.tables import tables
from nqf_pipeline.report.verdict import verdict
from nqf_pipeline.store.atomic import write_bytes
from nqf_pipeline.store.open import open_study
from nqf_pipeline.study.config import ReportSettings
from nqf_pipeline.study.layout import Layout

LARGEST_SVG = 600_000
"""Bytes up to which a figure is set as text that follows light and dark; a denser one is set as its PNG."""
_COLOURS = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--rule)", PAPER: "var(--paper)"}
CONVENTIONS = {
    "Loss": "squared error, mean over samples of the sum over outputs. (A mean over outputs too would divide every rate by their number.)",
    "σ and ε": "σ is the standard deviation of the initial weights; ε = (degrees of freedom) σ² the scale of the initial order parameters.",
    "Strength of a mode": "recovered share of the target along the mode, 1 when learnt. A mode ignites when it first reaches ρ = 1/2.",
    "Network": "the module itself, trained. Solid lines.",
    "Twin": "its quadratic form, trained from the same initial weights on the same batches: trained too, so no prediction. Dashed lines.",
    "Theory": "predictions made without training. Dotted lines. Four tiers, from coarse to fine:",
    "— asymptote": "ignition times as ε → 0: a fixed order of instantaneous steps.",
    "— event": "the saddle-to-saddle clock: modes grow at their invasion rate on each plateau, for features that interact.",
    "— flow": "closed forms of gradient flow from the effective initial seeds.",
    "— discrete": "exact steps at finite learning rate: of each mode, or of M = W W^T where no closed clock holds.",
}


class PageError(InputError):
    """The page cannot be written yet."""


@dataclass(frozen=True)
class Plate:
    """One figure as the page shows it."""

    name: str
    heading: str
    title: str
    caption: str
    omitted: str
    body: Markup


def write(results: Path, settings: ReportSettings) -> Path:
    """Write `report.html` of a results folder from its saved figures and tables; nothing in it is loaded from elsewhere."""
    layout = Layout(Path(results))
    findings = Findings(open_study(results, allow_partial=True))
    study = _config(layout)
    text = _template().render(
        study=study.get("name", layout.root.name),
        verdict=verdict(findings),
        found=finding_rows(findings.claims),
        found_summary=summary(findings.claims["verdict"]),
        plates=_plates(layout),
        tables=tables(findings),
        conventions={**CONVENTIONS, **_losses(findings.attributes)},
        provenance=_provenance(findings.attributes),
        config=yaml.safe_dump(study, sort_keys=False, allow_unicode=True) if study else "",
        css=Markup(_beside("page.css")),
    )
    write_bytes(layout.report, text.encode())
    return layout.report


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_beside("page.html.j2"))


def _config(layout: Layout) -> dict[str, Any]:
    return json.loads(layout.study.read_text(encoding="utf-8")) if layout.study.is_file() else {}


def _plates(layout: Layout) -> list[Plate]:
    if not layout.figure_list.is_file():
        raise PageError(f"{layout.figure_list}: absent. The page is made from saved figures: start the workflow of {layout.root} again.")
    listing = json.loads(layout.figure_list.read_text(encoding="utf-8"))
    return [_plate(layout.figures, name, listing[name]) for name in HEADINGS if name in listing]


def _plate(folder: Path, name: str, entry: dict[str, str]) -> Plate:
    omitted = entry.get("omitted", "")
    title = entry.get("title", "")
    body = Markup("") if omitted else _body(folder, name, title)
    return Plate(name, HEADINGS[name], title, entry.get("caption", ""), omitted, body)


def _body(folder: Path, name: str, title: str) -> Markup:
    """The figure itself: SVG where there is one of moderate size, else PNG."""
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    label = html.escape(title, quote=True)
    if svg.is_file() and (svg.stat().st_size <= LARGEST_SVG or not png.is_file()):
        return Markup(inline(svg.read_text(encoding="utf-8"), name, label))
    if png.is_file():
        data = base64.b64encode(png.read_bytes()).decode()
        return Markup(f'<img alt="{label}" src="data:image/png;base64,{data}">')
    raise PageError(f"{folder}: {name} is neither there as svg nor as png, which the page needs. Add one of them to report.formats.")


def inline(svg: str, name: str, label: str) -> str:
    """An SVG file as an element of the page: ids made unique by the figure's name, reserved colours replaced by the page's."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    for colour, variable in _COLOURS.items():
        svg = svg.replace(colour, variable)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _losses(attributes: Mapping[Any, Any]) -> dict[str, str]:
    """What the store says its loss curves are, where that is not squared error alone."""
    words = str(attributes.get("loss_convention", ""))
    plain = not words or words == convention({"squared_error"})
    return {} if plain else {"Loss": words + ". Modes of the latter losses: of the gradient at zero weights; strength 1 is no plateau."}


def _provenance(attributes: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """What made these numbers, from the attributes of the trajectory store."""
    known = (
        "package_version",
        "git_commit",
        "schema_version",
        "device",
        "precision",
        "threads",
        "lane_width",
        "versions",
        "theory_versions",
    )
    rows = [(name.replace("_", " "), _text(attributes[name])) for name in known if attributes.get(name) not in (None, "", [], {})]
    return [row for row in rows if row[1]]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    return str(value)
