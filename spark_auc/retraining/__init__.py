"""Retraining by period: what is decided about a challenger and about the rows of a period.

A period's rows are read once. They judge the champion and a challenger that was trained on the
moments of earlier periods; then their own moments are stored. This room holds the rules, on arrays
and states: whether the challenger replaces the champion (gate), and whether a period's rows differ
from those before (drift). Begin with `spark_auc.retraining.gate`.
"""
