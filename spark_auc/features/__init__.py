"""Feature maps: splines, crosses, Nystroem landmarks and random features, one file per map.

A new map implements the protocol in `spark_auc.features.embedding`. The Spark room imports the
maps. Begin with `spark_auc.features.splines`. Raw columns of text and numbers become rows by a
recipe, `spark_auc.features.recipe`.
"""
