"""Draws with replacement, folds, and the sampling error of the objective.

Draws and folds are functions of a seed and the rows' keys, so that they do not depend on the
partitioning of the rows. The rooms above core import from here. Begin with
`spark_auc.core.sampling.draws`.
"""
