"""Arrays in memory and a DataFrame of the same rows train and predict the same."""

import numpy as np
import pytest
from pyspark.ml.functions import array_to_vector

from spark_auc import MBAClassifier, local
from tests.pipeline.test_arrays import U, X, Y, check_same


@pytest.mark.parametrize("drawn", [{}, {"regParam": 0.1, "estimator": "paired", "numPairs": 2000}])
def test_mba(spark, drawn):
    made = [(x.tolist(), float(y), float(u)) for x, y, u in zip(X, Y, U, strict=True)]
    rows = spark.createDataFrame(made, ["x", "label", "u"]).repartition(3)
    rows = rows.withColumn("features", array_to_vector("x")).cache()
    model, ranker = MBAClassifier(weightCol="u", **drawn).fit(rows), local.MBAClassifier(**drawn)
    check_same(model, ranker, weighted=True)
    predicted = model.transform(rows).select("x", "prediction").toPandas()
    scored = ranker.predict(np.array(predicted["x"].tolist()))
    np.testing.assert_array_equal(scored == "yes", predicted["prediction"] == 1.0)
    rows.unpersist()
