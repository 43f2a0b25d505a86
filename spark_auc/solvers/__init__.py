"""Solvers: weights with a certificate of optimality, from a loss and a penalty.

The room contains ridge, elastic net, penalty paths, screening and truncated Newton. The training
room imports `path`, `solve` and `truncated_newton`. Begin with `spark_auc.solvers.path`.
"""
