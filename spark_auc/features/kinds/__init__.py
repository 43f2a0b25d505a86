"""Kinds of columns of a recipe, one file each: fit, rows, names, SQL, ONNX and curve.

A kind of numbers extends `spark_auc.features.kinds.numeric.Numeric`, one of tokens
`spark_auc.features.kinds.hashed.Hashed`. Begin with `spark_auc.features.kinds.registry`.
"""
