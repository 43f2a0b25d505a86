"""The spline basis as a stage: missing values, names, and what it does for a real data set."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from spark_auc import MBAClassifier, RankSVMClassifier, SplineBasis
from spark_auc.features.knots import knots_of
from spark_auc.features.splines import Splines
from spark_auc.features.value_counts import ValueCounts
from tests.data import path
from tests.spark.embedding_rows import COLUMNS, X, embedded, table


def test_splines_take_what_is_missing(spark):
    holes = X.copy()
    holes[::3, 1], holes[1::3, 2], holes[5, 0], holes[6, 0] = np.nan, np.nan, np.inf, -np.inf
    holed = table(spark, holes)
    no_nan = [F.when(~F.isnan(F.col(f"`{c}`")), F.col(f"`{c}`")) for c in COLUMNS]
    nulls = holed.withColumns(dict(zip(COLUMNS, no_nan, strict=True)))
    knots = [knots_of(*ValueCounts.of(x).weighted(), 5) for x in holes.T]
    expected = Splines.of_knots(knots).transform(holes).toarray()
    made = SplineBasis(inputCol=COLUMNS, numKnots=5)
    for df in (holed, nulls):
        np.testing.assert_array_equal(embedded(made.fit(df), df), expected)
    # A vector as a whole must be there.
    made = SplineBasis(inputCol="dense", numKnots=5).fit(holed)
    np.testing.assert_array_equal(embedded(made, holed), expected)
    gone = holed.withColumn("dense", F.when(F.col("id") != 3, F.col("dense")))
    with pytest.raises(Exception, match="DataError: found 1 nulls in column 'dense'"):
        made.transform(gone).select("embedded").collect()


def test_names_of_splines(spark):
    made = SplineBasis(inputCol=COLUMNS, numKnots=3)
    fitted = Pipeline(stages=[made, MBAClassifier(featuresCol="embedded")]).fit(table(spark))
    names = fitted.stages[0].embedding.names(COLUMNS)
    found = {w.feature: w.weight for w in fitted.stages[1].summary.largest_weights}
    assert set(found) <= set(names)
    least = f"x.0~{X[:, 0].min():g}"
    assert found[least] == fitted.stages[1].scorer.w[names.index(least)]
    assert "x.4 missing" in names


@pytest.mark.slow
def test_magic04(spark):
    """Additive functions of the columns, which no linear ranker of them comes near."""
    values = np.loadtxt(path("magic04.csv"), delimiter=",", usecols=range(10))
    y = np.loadtxt(path("magic04.csv"), delimiter=",", usecols=10, dtype=str) == "g"
    parts = train_test_split(values, y, test_size=0.5, stratify=y, random_state=0)
    names = [f"c{j}" for j in range(10)]

    def frame(X, y):
        columns = dict(zip(names, X.T, strict=True)) | {"label": y.astype(float)}
        return spark.createDataFrame(pa.table(columns))

    train, test = frame(parts[0], parts[2]), frame(parts[1], parts[3])
    basis = SplineBasis(inputCol=names).fit(train)
    mapped = basis.transform(train).cache()
    at_test = basis.embedding.transform(parts[1])

    def auc(w):
        return 100 * roc_auc_score(parts[3], at_test @ np.asarray(w))

    splines, reg = {"featuresCol": "embedded"}, 1e-4
    try:
        mba = MBAClassifier(**splines, regParam=reg).fit(mapped)
        svm = RankSVMClassifier(**splines, regParam=reg, tol=1e-3).fit(mapped)
        peer = LogisticRegression(**splines, regParam=reg).fit(mapped)
    finally:
        mapped.unpersist()
    assert auc(mba.coefficients) >= 90.4
    assert auc(svm.coefficients) >= auc(peer.coefficients) - 0.1
    scored = mba.transform(basis.transform(test)).select("rawPrediction").toPandas()
    assert 100 * roc_auc_score(parts[3], scored["rawPrediction"]) == auc(mba.coefficients)
