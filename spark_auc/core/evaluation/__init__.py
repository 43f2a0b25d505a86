"""AUC with its confidence interval, curves, thresholds and calibration measures.

All measures are computed from mergeable tables of the class weights at each score. The rooms above
core import from here. Begin with `spark_auc.core.evaluation.roc`. `ranking` merges
the measures of ranges of scores, and `report` has those of all rows.
"""
