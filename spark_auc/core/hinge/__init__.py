"""The pairwise squared hinge loss: value, gradient and Hessian from scores or ranges of them.

The solver is `spark_auc.solvers.truncated_newton`. The rooms above core import from here. Begin
with `spark_auc.core.hinge.pair_hinge`.
"""
