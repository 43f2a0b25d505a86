"""Evaluation, comparison and calibration of scored DataFrames.

Tasks build tables of class weight by score; `spark_auc.core.evaluation` computes the measures.
``spark_auc`` exports the functions and stages. Begin with `spark_auc.spark.evaluation.evaluate`.
"""
