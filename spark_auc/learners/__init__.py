"""Published algorithms that learn from rows in sequence, one file each.

A new algorithm implements the protocol in `spark_auc.learners.learner`. The Spark room imports the
learners. Begin with `spark_auc.learners.solam`.
"""
