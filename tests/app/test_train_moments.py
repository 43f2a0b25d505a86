"""The job train on stored moments: against the same job on all rows, and numpy."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.config.jobs import Train
from spark_auc.app.config.sections import Columns
from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.jobs.store_facts import facts_of
from spark_auc.app.running import run
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.recipe import Recipe
from spark_auc.pipeline.models import FittedRecipe
from spark_auc.publication.versions import current
from tests.app.arriving import NAMES, assert_same_moments, parts, table

pytest.importorskip("deltalake")

from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore

DAYS = ["2026-03-01", "2026-03-02", "2026-03-04"]
TRAINING = {"regParam": 0.1, "tol": 1e-12}
COLUMNS = {"features": NAMES}


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def started(output="model", **changes):
        section = {"columns": COLUMNS, "training": TRAINING} | changes
        section |= {"output": {"path": output, "replace": True}}
        Path("conf.yaml").write_text(yaml.safe_dump({"train": section}))
        code = run("train", "conf.yaml")
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return started


def folds(X, y, u=None, count=3):
    part = np.arange(len(y)) % count
    return [
        PairMoments.of(X[part == k], y[part == k], None if u is None else u[part == k])
        for k in range(count)
    ]


def rows(made, path):
    pq.write_table(pa.concat_tables([table(*part) for part in made]), path)


def published_moments(path="model"):
    stored = pq.read_table(pa.BufferReader(current(path, "model").read("moments.parquet")))
    tiles = dict(zip(*(stored[name].to_pylist() for name in ("tile", "moments")), strict=True))
    parsed = {name: MomentsTile.from_bytes(tile) for name, tile in tiles.items()}
    return PairMoments.of_parts(parsed, 3)


def solved(X, y, u):
    """Weights by numpy for rows of weights u, of standardised columns and regParam 0.1."""
    means, covariances = [], []
    for side in (y, ~y):
        share = u[side] / u[side].sum()
        mean = share @ X[side]
        means.append(mean)
        covariances.append((X[side] - mean).T @ ((X[side] - mean) * share[:, None]))
    mean = (u / u.sum()) @ X
    n = max(len(y), u.sum())
    scale = np.sqrt((u / u.sum()) @ (X - mean) ** 2 * n / (n - 1))
    mu = (means[0] - means[1]) / scale
    Sigma = sum(covariances) / np.outer(scale, scale) + np.outer(mu, mu)
    return np.linalg.solve(Sigma + 0.1 * np.eye(3), mu) / scale


def test_windows_of_a_store_with_rows_and_models_beside(train, spark):
    made = parts(6)
    store = MomentStore("moments", Facts(3, 3, segment_column="city", segments=("Bern",)))
    for day, (X, y, _) in zip(DAYS, made, strict=False):
        # Training merges the stored segments, which have the folds of all rows.
        half = len(y) // 6 * 3
        segments = {"Bern": folds(X[:half], y[:half]), "": folds(X[half:], y[half:])}
        store.put(day, "rows", segments)
    rows(made[3:4], "new.parquet")
    rows(made[4:5], "old.parquet")
    code, result = train("old", data={"path": "old.parquet"}, saveMoments=True)
    assert code == 0, result

    # The store alone: a window of 3 days has two stored ones, and half-life 2.
    moments = {"store": "moments", "window": 3, "halfLife": 2.0, "negativeLabel": 0}
    code, result = train(moments=moments)
    assert code == 0, result
    (told,) = result["moments"]
    assert (told["from"], told["to"], told["periods"]) == (DAYS[1], DAYS[2], 2)
    X, y = (np.concatenate([part[k] for part in made[1:3]]) for k in (0, 1))
    u = np.repeat([0.5, 1.0], [len(part[1]) for part in made[1:3]])
    np.testing.assert_allclose(read_model("model").ranker.scorer.w, solved(X, y, u), rtol=1e-9)

    # Store, model and new rows: the training on all rows.
    beside = {"store": "moments", "models": ["old"]}
    code, result = train(moments=beside, data={"path": "new.parquet"}, saveMoments=True)
    assert code == 0, result
    assert [next(iter(told)) for told in result["moments"]] == ["store", "model", "rows"]
    found, merged = read_model("model").ranker, published_moments()
    rows(made[:5], "all.parquet")
    code, expected = train("all", data={"path": "all.parquet"}, saveMoments=True)
    assert code == 0, expected
    assert result["rows"] == expected["rows"]
    assert_same_moments(merged, published_moments("all"))
    wanted = read_model("all").ranker
    np.testing.assert_allclose(found.scorer.w, wanted.scorer.w, rtol=1e-10)
    assert found.scorer.names == wanted.scorer.names == tuple(NAMES)
    assert found.getThreshold() == pytest.approx(wanted.getThreshold(), rel=1e-10)
    assert (found.scorer.positive, found.scorer.negative) == (1.0, 0.0)

    # A penalty is chosen on stored folds; moments of a model have none.
    select = {"regParams": [1e-4, 1e2]}
    alone = {"store": "moments", "negativeLabel": 0}
    code, result = train(moments=alone, select=select, training={})
    assert code == 0, result
    assert result["regParam"] == 1e-4
    chosen = json.loads(current("model", "model").read("selection.json"))
    assert [c["regParam"] for c in chosen["candidates"]] == [1e-4, 1e2]
    assert [len(c["folds"]) for c in chosen["candidates"]] == [3, 3]
    code, result = train(moments=beside, select=select, training={})
    assert (code, "without folds" in result["message"]) == (2, True), result


def test_moments_of_other_features_labels_and_weights_are_refused(train, spark):
    (X, y, u), *_ = parts(1)
    MomentStore("moments", Facts(3, 3, 0, "yes", "u")).put(DAYS[0], "rows", folds(X, y, u))
    code, result = train(moments={"store": "moments"})
    assert code == 2
    assert "negativeLabel" in result["message"]
    code, result = train(moments={"store": "moments", "negativeLabel": "no"})
    assert code == 0, result
    scorer = read_model("model").ranker.scorer
    assert (scorer.positive, scorer.negative) == ("yes", "no")
    np.testing.assert_allclose(scorer.w, solved(X, y, u), rtol=1e-9)

    rows([(X, y, u)], "rows.parquet")
    code, result = train(moments={"store": "moments"}, data={"path": "rows.parquet"})
    assert code == 2
    assert "weight_column" in result["message"]
    other = {"features": NAMES, "weight": "u"}
    code, result = train(moments={"store": "moments"}, data={"path": "rows.parquet"}, columns=other)
    assert (code, "positive_label" in result["message"]) == (2, True), result
    MomentStore("moments", Facts(2, 3), full_refresh=True).put(DAYS[0], "rows", folds(X[:, :2], y))
    code, result = train(moments={"store": "moments"})
    assert (code, "schemaId" in result["message"]) == (2, True), result


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, "data, or moments"),
        ({"moments": {}}, "a store, or models"),
        ({"moments": {"models": ["m"], "window": 3}}, "window with a store only"),
        ({"moments": {"store": "m"}, "features": {"auto": True}}, "no features"),
        ({"moments": {"store": "m"}, "holdout": {"by": "key"}}, "no holdout"),
        ({"moments": {"store": "m"}, "training": {"numPairs": 9}}, "training.numPairs"),
        ({"moments": {"store": "m"}, "training": {"segmentCol": "city"}}, "training.segmentCol"),
        ({"moments": {"store": "m"}, "training": {"maxFPR": 0.1}}, "training.maxFPR"),
        ({"moments": {"store": "m"}, "learner": "SOLAMClassifier"}, "no learner"),
    ],
)
def test_settings_that_moments_cannot_serve_are_refused(changes, found):
    with pytest.raises(ValueError, match=found):
        Train.model_validate({"output": {"path": "model"}} | changes)


def test_moments_of_a_recipe_with_and_without_a_head_are_alike():
    recipe = Recipe(numeric=(Standard("a", "float", 0.0, 1.0),), head=(0,))
    with_head, without = (
        facts_of(2, 5, 0, Columns(), FittedRecipe(of))
        for of in (recipe, replace(recipe, head=None))
    )
    assert with_head == without
