"""Published online learners, one file per algorithm.

A new algorithm implements the protocol in `spark_auc.learners.learner`. The Spark room imports the
learners. Begin with `spark_auc.learners.solam`.
"""
