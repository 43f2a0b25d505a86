"""The choice of crosses for a recipe, from rows in memory."""

import logging

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.parts_of_times import Hour
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.row_groups import row_groups
from spark_auc.local import MBAClassifier
from spark_auc.training.crosses import categorical, with_crosses
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.single_columns import single_scores
from tests.features.raw_rows import take, text

SIZES = (3, 6, 12, 25, 60, 400)


def table(n, planted, seed=0):
    """Six columns of text and their codes, labels, and the log odds; ``planted`` pairs interact."""
    rng = np.random.default_rng(seed)
    codes = {}
    odds = np.full(n, -1.5)
    for k, size in enumerate(SIZES):
        p = 1 / np.arange(1, size + 1)
        codes[f"c{k}"] = rng.choice(size, n, p=p / p.sum())
        odds += rng.normal(0, 0.4, size)[codes[f"c{k}"]]
    for a, b in planted:
        cell = codes[a] * len(codes[b]) + codes[b]
        odds += rng.normal(0, 2, cell.max() + 1)[cell]
    columns = {name: text([f"v{v}" for v in code]) for name, code in codes.items()}
    return columns, codes, rng.random(n) < 1 / (1 + np.exp(-odds)), odds


def plain(dimension=1024):
    return Recipe(hashed=tuple(Tokens(f"c{k}", "text") for k in range(6)), dimension=dimension)


def crossed_by(recipe, columns, y, **settings):
    """The recipe with crosses that rows choose by scores of their single columns."""
    rows = RawRows(columns, y, None, row_groups(columns))
    return with_crosses(recipe, rows, single_scores(recipe, rows), **settings)


def one_hot(codes, pairs):
    """Exact columns of values and of pairs of values, without a hash."""
    sets = [*codes.values(), *(codes[a] * 1000 + codes[b] for a, b in pairs)]
    places = [np.unique(values, return_inverse=True)[1] for values in sets]
    rows = np.arange(places[0].size)
    blocks = [sparse.csr_matrix((np.ones(rows.size), (rows, at))) for at in places]
    return sparse.hstack(blocks).tocsr() / np.sqrt(len(blocks))


def test_planted_pairs_are_chosen_and_rank_as_an_exact_dictionary(caplog):
    planted = [("c1", "c4"), ("c2", "c5")]
    columns, codes, y, _ = table(8000, planted)
    train, test = np.arange(5000), np.arange(5000, 8000)
    half = {name: take(column, train) for name, column in columns.items()}
    sample = KeySample(0.5, 3)
    with caplog.at_level(logging.INFO):
        made = crossed_by(plain(), half, y[train], chosen_by=sample)
    assert made.crosses is not None
    assert set(made.crosses.pairs) == set(planted)
    cells = sum(np.unique(codes[a][train] * 1000 + codes[b][train]).size for a, b in planted)
    assert 1.5 * cells < 2**made.crosses.bits <= 3 * cells + 2
    assert made.chosen_by == sample
    assert from_json(to_json(made)) == made
    assert "chose 2 of 15 pairs of 6 categorical columns" in caplog.text
    assert not [record for record in caplog.records if record.levelno > logging.INFO]

    def auc(X):
        ranker = MBAClassifier(regParam=0.01, standardization=False).fit(X[train], y[train])
        return roc_auc_score(y[test], ranker.decision_function(X[test]))

    chosen, exact = auc(made.transform(columns)), auc(one_hot(codes, planted))
    alone, every = (
        auc(one_hot(codes, [])),
        auc(one_hot(codes, [(a, b) for a in codes for b in codes if a < b])),
    )
    assert chosen > exact - 0.01
    assert chosen > every + 0.005
    assert chosen > alone + 0.05


@pytest.mark.parametrize("seed", range(3))
def test_columns_without_interactions_have_no_crosses(seed):
    columns, _, y, _ = table(4000, [], seed)
    recipe = plain()
    assert crossed_by(recipe, columns, y, chosen_by=KeySample(0.5)) == recipe


def test_the_choice_does_not_depend_on_the_order_of_the_rows():
    columns, _, y, _ = table(3000, [("c1", "c4")])
    order = np.random.default_rng(1).permutation(y.size)
    made = crossed_by(plain(), columns, y)
    assert made.crosses is not None
    shuffled = {name: take(column, order) for name, column in columns.items()}
    assert crossed_by(plain(), shuffled, y[order]) == made


def test_columns_that_are_no_categories_are_not_crossed():
    recipe = Recipe(
        (Standard("x", "integer", 0.0, 1.0),),
        (
            *(Tokens("x", "integer"), Tokens("a", "text"), Tokens("b", "boolean")),
            *(Log("n", "integer"), Hour("t", "time"), Tokens("k", "integer")),
        ),
    )
    assert categorical(recipe) == ("x", "a", "b", "k")
    # Of many, those that are surely categories.
    many = [Tokens(f"{kind}{k}", kind) for kind in ("integer", "text") for k in range(10)]
    numbers = tuple(Standard(f"integer{k}", "integer", 0.0, 1.0) for k in range(10))
    assert categorical(Recipe(numbers, tuple(many))) == tuple(f"text{k}" for k in range(10))
    more = [Tokens(f"more{k}", "text") for k in range(7)]
    assert categorical(Recipe(numbers, (*many, *more))) == ()
    alone = Recipe((), (Tokens("a", "text"),))
    columns = {"a": text(["u", "v"])}
    rows = RawRows(columns, np.array([True, False]), None, np.arange(2))
    assert with_crosses(alone, rows, np.zeros(2)) == alone
