"""The pairwise squared hinge loss: value, gradient and Hessian from sorted scores.

`spark_auc.solvers.truncated_newton` minimises it. The rooms above core import from here. Begin with
`spark_auc.core.hinge.pair_hinge`.
"""
