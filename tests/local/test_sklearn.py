"""scikit-learn's own checks of an estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from spark_auc.local import MBAClassifier, RankSVMClassifier


@parametrize_with_checks(
    [
        MBAClassifier(),
        MBAClassifier(regParam=0.1, elasticNetParam=0.5, standardization=False),
        RankSVMClassifier(),
    ]
)
def test_scikit_learns_conventions(estimator, check):
    check(estimator)
