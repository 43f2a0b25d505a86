"""Pair moments: the statistics that define the pairwise squared loss.

The room contains the moments of classes, columns and matrix tiles, the code that adds rows to them,
and the quadratic objective that they define. The rooms above core import from here. Begin with
`spark_auc.core.moments.pair_moments`.
"""
