"""Draws with replacement, folds, and the cost of sampling.

Draws and folds are functions of a seed and of the rows' keys, so that they do not depend on how
rows are distributed. The rooms above core import from here. Begin with
`spark_auc.core.sampling.draws`.
"""
