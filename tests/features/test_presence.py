"""Whether there is a value, of columns whose values are too many to tell."""

import numpy as np
import pyarrow as pa
import pytest

import spark_auc
from spark_auc.errors import ConfigError
from spark_auc.features.contributions import contributions
from spark_auc.features.kinds.presence import Presence
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe_fit import Planned, RecipePlan
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.pipeline.part_words import recipe_words
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.raw_columns import RawColumns

ROWS = pa.table(
    {
        "cabin": ["C85", None, "", "E46", "NA", "C85 "],
        "ticket": pa.array([7, None, 0, -3, None, 7], pa.int64()),
    }
)
GIVEN = np.array([[True, False, False, True, False, True], [True, False, True, True, False, True]])


def recipe_and_columns(**settings):
    planned = (Planned("cabin", "text", "presence"), Planned("ticket", "integer", "presence"))
    of_table = RawColumns.of(ArrowTable.of(ROWS), ["cabin", "ticket"])
    columns = of_table.decode([ROWS[name].combine_chunks() for name in of_table.found])
    plan = RecipePlan(planned, dimension=64, unit=False, **settings)
    return plan.fitted(plan.fold([columns])), columns


def test_a_value_has_one_token_and_none_another():
    recipe, columns = recipe_and_columns()
    X = recipe.transform(columns).toarray()
    assert recipe.names() == ()
    for name, given in zip(("cabin", "ticket"), GIVEN, strict=True):
        own = next(c for c in recipe.hashed if c.name == name)
        there, missing = own.word_hashes.view(np.int32).astype(np.int64) % 64
        np.testing.assert_array_equal(X[:, there], given)
        np.testing.assert_array_equal(X[:, missing], ~given)
    assert X.sum() == X.shape[0] * 2


def test_without_an_indicator_missing_values_have_no_feature():
    recipe, columns = recipe_and_columns(missing="ignore")
    np.testing.assert_array_equal(recipe.transform(columns).sum(axis=1).A1, GIVEN.sum(axis=0))


def test_names_of_tokens_and_contributions():
    recipe, columns = recipe_and_columns()
    words = recipe_words(recipe, columns)
    every = np.arange(6)
    for part, (name, given) in enumerate(zip(("cabin", "ticket"), GIVEN, strict=True)):
        told = words(np.full(6, part), every).to_pylist()
        assert told == [f"{name}: value{'=given' if g else ' missing'}" for g in given]
    w = np.random.default_rng(0).normal(size=recipe.dimension)
    found = contributions(recipe, w, columns)
    np.testing.assert_allclose(found.sum(axis=1), recipe.transform(columns) @ w)


def test_it_is_stored_and_takes_text_and_integers():
    recipe, _ = recipe_and_columns()
    assert from_json(to_json(recipe)) == recipe
    with pytest.raises(ConfigError, match="of type float as presence"):
        Presence("x", "float")
    assert Presence("ticket", "integer").unknown(Numbers(np.array([9]))) == 0


def identifiers(share, n=1500, seed=0):
    """Rows with an identifier that a share of them has, which raises the label's rate."""
    rng = np.random.default_rng(seed)
    has, x = rng.random(n) < share, rng.normal(size=n)
    y = x + 2 * has + rng.normal(size=n) > 1
    cabin = [f"C{k:05d}" if h else None for k, h in enumerate(has)]
    return pa.table({"x": x, "cabin": cabin, "y": y.astype(int)})


def told(rows):
    """The same rows with a text that says whether there is an identifier."""
    words = ["some" if value else "none at all" for value in rows["cabin"].to_pylist()]
    return rows.set_column(1, "cabin", pa.array(words))


def test_identifiers_that_some_rows_have_are_told_by_their_presence(tmp_path):
    rows, new = identifiers(0.3), identifiers(0.3, seed=1)
    trained = spark_auc.train(rows, "y")
    recipe = trained.model.recipe
    assert [(c.name, c.kind) for c in recipe.hashed] == [("cabin", "presence")]
    by_hand = spark_auc.train(told(rows), "y")
    scores = np.asarray(trained.score(new))
    assert np.corrcoef(scores, np.asarray(by_hand.score(told(new))))[0, 1] > 0.999
    trained.model.save(tmp_path / "model")
    loaded = spark_auc.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.score(new), scores)
    singly = [loaded.score(row) for row in new.slice(0, 20).to_pylist()]
    np.testing.assert_array_equal(singly, scores[:20])


@pytest.mark.parametrize("share", [0.005, 0.995, 1.0])
def test_identifiers_that_nearly_all_or_no_rows_have_are_left_out(share):
    assert not spark_auc.train(identifiers(share), "y").model.recipe.hashed
