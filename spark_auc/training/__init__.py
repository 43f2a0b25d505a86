"""Training without Spark: from a source of rows and a memory budget to a `TrainingResult`.

A source (`spark_auc.core.row_source.RowSource`) is arrays in memory or a DataFrame. The local and
Spark rooms import `train`, `train_on_moments` and `train_hinge` with their settings. Begin with
`spark_auc.training.train`: it surveys the rows if it draws pairs (survey), forms their quadratic
(problem), chooses the penalty (penalty, cross_validation, held_out) and solves. Rows that grew the
trees of their features are trained on by `spark_auc.training.same_rows`.
"""
