"""The threshold of the class ratio, against a root finder of scipy and the shares of drawn rows."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.gaussian import class_ratio_threshold


def _scores(positive, negative):
    y = np.repeat([True, False], [len(positive), len(negative)])
    values = np.concatenate([positive, negative])[:, None]
    return ColumnMoments.of(Batch(values, y, np.ones(y.size)))


@pytest.mark.parametrize("rows", [(400, 400), (30, 3000), (2000, 50)])
@pytest.mark.parametrize("spreads", [(1.0, 1.0), (0.1, 5.0), (1e-3, 1e3)])
def test_the_share_above_the_threshold_is_that_of_the_positive_class(rows, spreads):
    random = np.random.default_rng(7)
    classes = [random.normal(m, s, n) for m, s, n in zip((1e3, -2.0), spreads, rows, strict=True)]
    share = np.array(rows) / sum(rows)
    means, deviations = [c.mean() for c in classes], [c.std() for c in classes]

    def excess(threshold):
        return share @ norm.sf(threshold, means, deviations) - share[0]

    low, high = min(c.min() for c in classes) - 1e5, max(c.max() for c in classes) + 1e5
    found = class_ratio_threshold(_scores(*classes))
    expected = brentq(excess, low, high, xtol=1e-12)
    assert excess(found) == pytest.approx(0, abs=1e-9) or found == pytest.approx(expected, rel=1e-9)


def test_no_row_of_equal_scores_is_above_the_threshold():
    threshold = class_ratio_threshold(_scores(np.full(3, 0.7), np.full(9, 0.7)))
    assert 0.7 < threshold < 0.7 + 1e-6


@pytest.mark.parametrize("scale", [1.0, 1e150])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_between_classes_that_are_far_apart_it_is_in_the_middle(spread, scale):
    random = np.random.default_rng(1)
    positive, negative = (m + spread * random.normal(size=40) for m in (100.0, 0.0))
    threshold = class_ratio_threshold(_scores(positive / 100 * scale, negative / 100 * scale))
    assert 0.4 * scale < threshold < 0.6 * scale
