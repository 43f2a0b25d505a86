"""Recipes and rankers fitted to the rows of a table, whatever its engine.

The classes here have declared settings and no engine: those of `spark_auc.spark` add Params of
Spark ML to them, and `spark_auc.pipeline.estimators` plain values. Begin with
`spark_auc.pipeline.pipeline_fit`.
"""
