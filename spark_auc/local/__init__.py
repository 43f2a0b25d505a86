"""Rankers of arrays in memory, by scikit-learn's conventions and without Spark.

Import `MBAClassifier` and `RankSVMClassifier`; they need the extra ``spark-auc[local]``. Their
weights are those of the Spark ML classes of the same names. Begin reading at
`spark_auc.local.ranker.LinearRanker`, which makes a source of rows of arrays.
"""

from spark_auc.local.mba import MBAClassifier
from spark_auc.local.ranksvm import RankSVMClassifier

__all__ = ["MBAClassifier", "RankSVMClassifier"]
