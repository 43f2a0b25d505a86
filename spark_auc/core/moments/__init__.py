"""Pair moments: the statistics that define the pairwise squared loss.

The room holds the states of a class, of columns and of matrix tiles, the code that adds rows to
them, and the quadratic that they define. The rooms above core import from here. Begin with
`spark_auc.core.moments.pair_moments`.
"""
