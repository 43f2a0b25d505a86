"""Frozen trees: forests as flat arrays, readers of libraries' models, and the leaves of rows.

Readers return a `spark_auc.trees.forest.Forest`; `spark_auc.trees.leaves` maps rows to leaves. Only
`spark_auc.trees.grow` needs a library, LightGBM. Begin with `spark_auc.trees.forest`.
"""
