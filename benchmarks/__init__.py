"""Measurements; run one with ``python -m benchmarks.NAME`` from the top of the checkout."""
