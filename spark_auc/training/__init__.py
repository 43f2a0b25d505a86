"""Training without Spark: from a source of rows and a memory budget to a `TrainingResult`.

A source (`spark_auc.core.rows.RowSource`) is arrays in memory or a DataFrame; import `train`,
`train_on_moments` and `train_hinge` with their settings from the modules of those names. Begin
reading at `spark_auc.training.train.train`: it surveys the rows (survey), makes their quadratic
(problem), chooses the penalty (penalty, cross_validation, held_out), and solves it.
"""
