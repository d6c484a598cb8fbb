"""`import nqf_pipeline` is cheap, and what users call is found from there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nqf_pipeline
from nqf_pipeline.forms.normal_form import normal_form
from nqf_pipeline.store.open import open_study

ROOT = Path(__file__).parents[2]


def test_public_names() -> None:
    assert nqf_pipeline.open_study is open_study
    assert nqf_pipeline.normal_form is normal_form
    assert {"open_study", "normal_form"} <= set(dir(nqf_pipeline))
    with pytest.raises(AttributeError, match="opn_study"):
        nqf_pipeline.opn_study  # noqa: B018


def test_importing_the_package_imports_no_library() -> None:
    code = "import sys, nqf_pipeline; heavy = {'jax', 'xarray', 'zarr', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
