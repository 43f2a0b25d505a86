"""Solvers: from a loss and a penalty to weights with a certificate of optimality.

The room holds ridge, elastic net, penalty paths, screening and truncated Newton. The training room
imports `path`, `solve` and `truncated_newton`. Begin with `spark_auc.solvers.path`.
"""
