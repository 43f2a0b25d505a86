"""Estimate probabilities after nine of ten negative rows were dropped.

About 1% of the visits to a shop end in a purchase. Training uses all purchases and a tenth of the
other visits. `ScoreCalibrator` knows this rate, so the mean probability on new visits is close to
their share of purchases. The program prints both, the AUC, the calibration error and a threshold.
"""

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from spark_auc import MBAClassifier, ScoreCalibrator, evaluate

KEPT = 0.1


def visitors(count: int, seed: int) -> pd.DataFrame:
    """Synthetic visits, of which about 1% end in a purchase."""
    rng = np.random.default_rng(seed)
    pages, minutes = rng.normal(size=(2, count))
    bought = rng.uniform(size=count) < 1.0 / (1.0 + np.exp(5.5 - 1.2 * pages - 0.6 * minutes))
    return pd.DataFrame({"pages": pages, "minutes": minutes, "bought": bought.astype(float)})


def main() -> None:
    """Run the example."""
    spark = SparkSession.builder.getOrCreate()
    everything = visitors(40_000, seed=1)
    drawn = np.random.default_rng(2).uniform(size=len(everything)) < KEPT
    sample = everything[(everything.bought == 1.0) | drawn]
    half = len(sample) // 2
    train, held_out = spark.createDataFrame(sample[:half]), spark.createDataFrame(sample[half:])

    columns = ["pages", "minutes"]
    model = MBAClassifier(featuresCol=columns, labelCol="bought", regParam=0.01).fit(train)
    calibrator = ScoreCalibrator(labelCol="bought", negativeSamplingRate=KEPT)
    calibration = calibrator.fit(model.transform(held_out).cache())

    # New visits have all their negatives.
    test = spark.createDataFrame(visitors(20_000, seed=3))
    scored = calibration.transform(model.transform(test))
    report = evaluate(scored, scoreCol="probability", labelCol="bought", probabilities=True)
    mean = scored.agg({"probability": "avg", "bought": "avg"}).first()
    print(f"AUC {report.auc:.4f}")
    print(f"mean probability {mean['avg(probability)']:.4f}, purchases {mean['avg(bought)']:.4f}")
    print(f"calibration error {report.calibration_error:.4f}")
    best = report.thresholds["f1"]
    print(
        f"threshold of the best F1 {best.threshold:.4f}: precision {best.precision:.2f}, "
        f"recall {best.tpr:.2f}"
    )


if __name__ == "__main__":
    main()
