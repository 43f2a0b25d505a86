"""Rankers of arrays in memory, with scikit-learn's conventions, without Spark.

Import `MBAClassifier` and `RankSVMClassifier`; they need the extra ``spark-auc[local]``. They
compute the same weights as the Spark ML classes of the same names. Begin with
`spark_auc.local.ranker`.
"""

from spark_auc.local.mba import MBAClassifier
from spark_auc.local.ranksvm import RankSVMClassifier

__all__ = ["MBAClassifier", "RankSVMClassifier"]
