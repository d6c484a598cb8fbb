from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from nqf_pipeline.report import figures, page, tables
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.names import GRID, INK, PAPER
from nqf_pipeline.report.verdict import verdict
from nqf_pipeline.store.open import open_study
from nqf_pipeline.study.config import ReportSettings

LOOK = ReportSettings(dpi=60)
VOID = {"meta", "img", "link", "br"}


class Outline(HTMLParser):
    """Tags that stay open, ids, and everything a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.fetched, self.links = [], [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" else []
        self.fetched += [values[name] for name in ("src", "srcset", "data") if name in values]
        self.fetched += [
            values[name] for name in ("href", "xlink:href") if name in values and tag != "a" and not values[name].startswith("#")
        ]
        if tag not in VOID:
            self.open.append(tag)
        assert tag not in {"script", "iframe", "link", "object"}

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def outline(text):
    parser = Outline()
    parser.feed(text)
    return parser


@pytest.fixture(scope="module")
def written(finished):
    figures.draw(finished, LOOK)
    return page.write(finished, LOOK)


@pytest.fixture(scope="module")
def text(written):
    return written.read_text(encoding="utf-8")


def test_page_needs_nothing_but_itself(text):
    found = outline(text)
    assert found.open == []
    assert [source for source in found.fetched if not source.startswith("data:image/png;base64,")] == []
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_findings_stand_first_failures_on_top(text):
    assert text.index('id="findings"') < text.index('id="learning"')
    verdicts = re.findall(r'<tr><td class="text [a-z-]+">([a-z ]+)</td>', text)
    assert verdicts == ["fails", "not resolved", "holds"]
    assert "1 holds, 1 fails and 1 is not resolved here" in text
    assert "at most 0.1" in text
    assert "1.250 (1.240 to 1.260)" in text
    assert text.index("How unseen was measured.") < text.index("What holds") < text.index("How agrees was measured.")
    assert "How contradicts was measured." in text


def test_ids_are_unique_and_links_lead_somewhere(text):
    found = outline(text)
    assert [name for name, count in Counter(found.ids).items() if count > 1] == []
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)
    used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'xlink:href="#([^"]+)"', text))
    assert used <= set(found.ids)


def test_figures_follow_the_readers_light_or_dark_setting(text):
    body = text[text.index("</style>") :]
    drawn = re.sub(r"base64,[^\"]*", "", body)
    assert [colour for colour in (INK, GRID, PAPER) if colour in drawn] == []
    assert "var(--ink)" in drawn


def test_page_opens_with_name_and_numbers(finished, text):
    study = Findings(open_study(finished))
    sentences = verdict(study)
    assert sentences[0] == f"{len(study.cells)} of {len(study.cells)} cells are done: {len(study.cells)} networks beside their twins."
    for sentence in sentences:
        assert sentence.replace("'", "&#39;") in text
    assert text.index("<h1>full</h1>") < text.index(sentences[0]) < text.index("<figure>")


def test_verdict_states_the_measured_errors(finished):
    study = Findings(open_study(finished))
    table = study.plateaus.query("source == 'network' and tier == 'twin' and task == 'teacher' and optimizer == 'gd' and sigma == 0.001")
    error = table.loc[table["architecture"] == "cnn", "relative_error"].abs()
    assert f"CNN {100 * error.median():.1f}\u00a0% ({100 * error.max():.1f}\u00a0%)" in " ".join(verdict(study))
    fits = study.exponents[study.exponents["task"] == "feature_power_law"]
    assert f"{len(fits)} of {len(fits)} exponents of power-law features are resolved" in " ".join(verdict(study))


def test_page_is_the_same_when_written_again(finished, written, text):
    assert page.write(finished, LOOK).read_text(encoding="utf-8") == text


def test_dense_figures_are_set_as_png(finished, written, monkeypatch):
    monkeypatch.setattr(page, "LARGEST_SVG", 1000)
    body = page.write(finished, LOOK).read_text(encoding="utf-8")
    monkeypatch.undo()
    page.write(finished, LOOK)
    drawn = [entry for entry in json.loads((finished / "figures" / "figures.json").read_text()).values() if "omitted" not in entry]
    assert body.count("data:image/png;base64,") == len(drawn) > 5
    assert "<svg" not in body


def test_a_page_without_figures_says_what_to_do(make):
    results = make("ensemble")
    with pytest.raises(page.PageError, match=r"figures\.json: absent.*start the workflow"):
        page.write(results, LOOK)


def test_left_out_figures_are_named(make):
    results = make("ensemble")
    figures.draw(results, LOOK)
    body = page.write(results, LOOK).read_text(encoding="utf-8")
    assert "Not drawn: no finished network on a teacher task." in body
    assert 'href="#modes"' not in body


def test_diverged_cells_are_listed_with_step_and_remedy(make):
    study = Findings(open_study(make("teacher", "diverged")))
    troubles = tables.troubles(study)
    assert len(troubles.rows) == 1
    row = dict(zip(troubles.headers, troubles.rows[0], strict=True))
    assert (row["status"], row["step"], row["seed"]) == ("diverged", "12", "7")
    assert tables.troubles(Findings(open_study(make("digits")))).rows == []


def test_ignition_table_has_one_row_per_setting_with_median_and_worst(finished):
    study = Findings(open_study(finished))
    table = tables.plateaus(study)
    keys = study.plateaus.query("source == 'network'").groupby(["architecture", "width", "task", "optimizer", "sigma"]).ngroups
    assert len(table.rows) == keys
    row = next(row for row in table.rows if row[:4] == ["CNN", "teacher", "gradient descent", "0.001"])
    error = study.plateaus.query(
        "source == 'network' and tier == 'twin' and architecture == 'cnn' and task == 'teacher' and optimizer == 'gd' and sigma == 0.001"
    )["relative_error"].abs()
    assert row[5:7] == [f"{100 * error.median():.1f}\u00a0%", f"{100 * error.max():.1f}\u00a0%"]
    assert row[4] == "8 of 8"


def test_table_of_drops_counts_what_is_matched_and_what_is_alone(finished):
    table = tables.drops(Findings(open_study(finished)))
    assert [row[2] for row in table.rows] == ["asymptote", "discrete"]
    assert table.rows[1] == ["MLP", "teacher", "discrete", "3", "2", "1", "6.0\u00a0%", "10\u00a0%", "1", "1"]


def test_inline_svg_keeps_its_references():
    svg = (
        '<?xml version="1.0"?>\n<svg width="1pt"><metadata>x</metadata><g id="a"/><use xlink:href="#a"/>'
        '<path clip-path="url(#a)" style="fill: #1f2329"/></svg>'
    )
    done = page.inline(svg, "run", "what ran")
    assert done == (
        '<svg role="img" aria-label="what ran" width="1pt"><g id="run-a"/><use xlink:href="#run-a"/>'
        '<path clip-path="url(#run-a)" style="fill: var(--ink)"/></svg>'
    )
