"""The choice of pairs for a recipe, from rows in memory."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import Planned, RecipePlan
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.row_groups import row_groups
from spark_auc.local import MBAClassifier
from spark_auc.training.pairs import with_pairs
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.single_columns import single_scores
from tests.features.raw_rows import take


def table(n, product, seed=0, width=6):
    """Columns, labels and probabilities: additive effects and ``product`` times "x1" times "x2"."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, width))
    columns = {f"x{j}": Numbers(x.copy()) for j, x in enumerate(X.T, 1)}
    missing = rng.random(n) < 0.1
    columns["x3"].values[missing] = np.nan
    columns["constant"] = Numbers(np.full(n, 2.0))
    columns["absent"] = Numbers(np.full(n, np.nan))
    days = rng.integers(0, 300, n)
    columns["day"] = Numbers(np.datetime64("2024-01-01", "us") + days * np.timedelta64(1, "D"))
    odds = np.sin(2 * X[:, 0]) + 0.5 * X[:, 3] ** 2 + np.where(missing, 1.0, X[:, 2]) - 0.5
    odds += product * X[:, 0] * X[:, 1]
    p = 1 / (1 + np.exp(-odds))
    return columns, rng.random(n) < p, p


def fitted(columns, unit=True):
    kinds = [Planned(n, "time" if n == "day" else "float", "spline") for n in columns]
    plan = RecipePlan(tuple(kinds), knots=12, unit=unit)
    return plan.fitted(plan.fold([columns]))


def paired_by(recipe, columns, y, weight=None, group=None, **settings):
    """The recipe with pairs that rows choose by scores of their single columns."""
    rows = RawRows(columns, y, weight, row_groups(columns) if group is None else group)
    return with_pairs(recipe, rows, single_scores(recipe, rows), **settings)


def names(recipe):
    return [tuple(c.name for c in pair.columns) for pair in recipe.pairs]


@pytest.mark.parametrize("unit", [True, False])
def test_a_planted_product_is_chosen_and_ranks_almost_best(unit, caplog):
    columns, y, _ = table(6000, 1.5)
    recipe = fitted(columns, unit)
    sample = KeySample(0.5, 1)
    with caplog.at_level(logging.INFO):
        paired = paired_by(recipe, columns, y, count=1, chosen_by=sample)
    assert names(paired) == [("x1", "x2")]
    assert paired.chosen_by == sample
    assert "chose the pair of 'x1' and 'x2': it lowers the squared loss by" in caplog.text
    assert from_json(to_json(paired)) == paired
    assert '"chosen_by": {"share": 0.5, "seed": 1}' in to_json(paired)
    assert "chosen_by" not in to_json(recipe)

    others, z, p = table(20_000, 1.5, seed=1)
    aucs = []
    for made in (recipe, paired):
        ranker = MBAClassifier(standardization=not unit, whenNotConverged="warn")
        ranker.fit(made.transform(columns), y)
        aucs.append(roc_auc_score(z, ranker.decision_function(made.transform(others))))
    best = roc_auc_score(z, p)
    assert aucs[0] < best - 0.08
    assert aucs[1] > best - 0.015


def test_a_table_without_interactions_has_no_pairs():
    columns, y, _ = table(4000, 0.0)
    chosen = [paired_by(fitted(columns), columns, y, np.ones(y.size)).pairs]
    for seed in range(4):
        columns, y, _ = table(1000, 0.0, seed=10 + seed, width=20)
        recipe = paired_by(fitted(columns), columns, y, chosen_by=KeySample(0.5))
        assert recipe.pairs or recipe.chosen_by is None
        chosen.append(recipe.pairs)
    # Of five tables with 21 to 231 pairs, one in ten is expected to have a pair by chance.
    assert sum(map(bool, chosen)) <= 1


def test_rows_of_a_group_and_their_order_do_not_matter():
    columns, y, _ = table(1500, 2.0)
    recipe, group = fitted(columns), row_groups(columns)
    found = paired_by(recipe, columns, y, group=group)
    order = np.random.default_rng(2).permutation(y.size)
    shuffled = {name: take(column, order) for name, column in columns.items()}
    again = paired_by(recipe, shuffled, y[order], group=group[order])
    assert names(found)[0] == ("x1", "x2")
    assert found == again


def test_what_is_refused():
    columns, y, _ = table(100, 0.0)
    recipe = fitted(columns)
    wide = {f"x{j}": Numbers(np.arange(100.0)) for j in range(501)}
    many = Recipe(tuple(Spline(name, "float", (0.0, 9.0)) for name in wide))
    with pytest.raises(ConfigError, match="found 501 numeric columns to choose pairs from, expec"):
        with_pairs(many, RawRows(wide, y, None, np.arange(100)), np.zeros(100))
    with pytest.raises(ConfigError, match="count"):
        paired_by(recipe, columns, y, count=0)


def test_two_columns_have_one_pair_and_one_has_none():
    columns, y, _ = table(3000, 2.0)
    two = {name: columns[name] for name in ("x1", "x2", "constant")}
    assert names(paired_by(fitted(two), two, y, count=50)) == [("x1", "x2")]
    one = {name: columns[name] for name in ("x1", "constant")}
    assert paired_by(fitted(one), one, y).pairs == ()


def test_knots_are_fewer_where_pairs_are_many(monkeypatch):
    columns, y, _ = table(6000, 1.5)
    recipe = replace(fitted(columns, unit=False), dimension=2**18)

    def knots():
        paired = paired_by(recipe, columns, y, count=1)
        return [[len(column.knots) for column in pair.columns] for pair in paired.pairs]

    # Tokens, of which most occur in no row, do not count.
    assert knots() == [[8, 8]]
    monkeypatch.setattr("spark_auc.training.pairs._ROOM", 40)
    monkeypatch.setattr("spark_auc.training.pairs.LARGEST_FACTORISED", 40)
    assert knots() == [[6, 6]]
    monkeypatch.setattr("spark_auc.training.pairs._ROOM", 2)
    monkeypatch.setattr("spark_auc.training.pairs.LARGEST_FACTORISED", 2)
    assert knots() == [[4, 4]]
