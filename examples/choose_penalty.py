"""Choose the penalty by cross-validation.

The table has 3,000 rows, 5% of them positive, and 30 features of which 5 are informative.
`MBASelector` tries four strengths of ridge and of an elastic net. The program prints the mean AUC
of every penalty over five folds and marks the chosen one: the strongest penalty within one
standard error of the best AUC.
"""

from pyspark.sql import SparkSession
from sklearn.datasets import make_classification

from spark_auc import MBASelector


def main() -> None:
    """Run the example."""
    spark = SparkSession.builder.getOrCreate()
    X, y = make_classification(
        3000, n_features=30, n_informative=5, weights=[0.95], flip_y=0.02, random_state=0
    )
    rows = spark.createDataFrame(
        [(row.tolist(), float(label)) for row, label in zip(X, y, strict=True)],
        "features array<double>, label double",
    )

    selector = MBASelector(
        regParams=[0.001, 0.01, 0.1, 1.0],
        elasticNetParams=[0.0, 0.5],
        selectionRule="oneStandardError",
    )
    model = selector.fit(rows)

    table = model.summary.selection
    print("regParam  elasticNetParam  AUC     standard error  non-zero weights")
    for number, candidate in enumerate(table["candidates"]):
        mark = "  chosen" if number == table["chosen"] else ""
        print(
            f"{candidate['regParam']:<8g}  {candidate['elasticNetParam']:<15g}  "
            f"{candidate['auc']:.4f}  {candidate['standardError']:.4f}          "
            f"{candidate['nonzeros']:g}{mark}"
        )


if __name__ == "__main__":
    main()
