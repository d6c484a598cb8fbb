"""How far the measurements of loss curves can be trusted: known curves through the very same code.

`python -m nqf_pipeline.analysis.calibration` draws fresh curves, writes docs/calibration.csv and docs/calibration.md, and prints its seed.
"""
