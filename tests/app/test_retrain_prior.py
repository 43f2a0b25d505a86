"""The champion as the centre of a challenger's penalty."""

import json
from functools import reduce
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from pydantic import ValidationError

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.champion import Champion, read_champion
from spark_auc.app.jobs.champion_prior import (
    champion_prior,
    first_seen,
    prior_facts,
    without_prior,
)
from spark_auc.app.running import run
from spark_auc.core.moments.gaussian import estimated_auc
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.features.raw_columns import Numbers
from spark_auc.pipeline.prior_settings import NamedWeights
from spark_auc.retraining.choice import choose
from spark_auc.solvers.candidates import Candidate
from spark_auc.training.settings import TrainingSettings
from tests.app import test_retrain
from tests.app.test_retrain import SECTION, by_all_rows, day, written
from tests.features.raw_rows import text

pytest.importorskip("deltalake")
retrain = test_retrain.retrain

D, FOLDS, DAYS = 150, 4, 4
FEATURES = SimpleNamespace(dimension=D, labels=lambda: [f"x{j}" for j in range(D)])
COLUMNS = SimpleNamespace(features=FEATURES)


class Ranker:
    def __init__(self, w, names=None):
        self.w, self.names = w, names

    def named_weights(self):
        return NamedWeights(self.w, self.names or FEATURES.labels())


def champion(model, first=0, last=2, **made):
    record = {"period": day(last + 1), "challenger": {"from": day(first), "to": day(last)} | made}
    return Champion(model, record, None)


def noise(seed):
    """Days of folds of rows whose labels have no relation to them."""
    rng = np.random.default_rng(seed)
    return [
        [PairMoments.of(rng.normal(size=(60, D)), rng.random(60) < 0.4) for _ in range(FOLDS)]
        for _ in range(DAYS)
    ]


def weights(days):
    """The ranker of some days by ridge."""
    quadratic = reduce(PairMoments.merge, [part for folds in days for part in folds]).quadratic()
    return np.linalg.solve(quadratic.Sigma.toarray() + 0.1 * np.eye(D), quadratic.mu)


def test_a_champion_is_no_prior_where_it_has_seen_the_rows(spark):
    """Labels are noise: a prior that has seen the measured rows is chosen, as its AUC is high."""
    chosen, gain, honest = [], [], []
    for seed in range(5):
        days = noise(seed)
        settings = TrainingSettings(reg_params=(1.0, 1e3))

        def found(prior, days=days, settings=settings):
            def training(window, k):
                others = [part for day in days for j, part in enumerate(day) if j != k]
                return reduce(PairMoments.merge, others)

            with_prior = TrainingSettings(reg_params=settings.reg_params, prior=prior)
            return choose(["4"], training, days[-1], with_prior).selections["4"]

        seen = Ranker(weights(days))
        # As it would be without the rule: an earlier day is measured.
        leak = champion_prior(champion(seen, 0, 3), day(4), None, COLUMNS)
        selection = found(leak)
        chosen.append(selection.candidate.prior)
        gain.append(max(selection.mean[2:]) - max(selection.mean[:2]))
        assert champion_prior(champion(seen, 0, 3), day(3), None, COLUMNS) is None

        before = weights(days[:-1])
        prior = champion_prior(champion(Ranker(before), 0, 2), day(3), None, COLUMNS)
        np.testing.assert_array_equal(prior.w, before)
        honest += list(found(prior).mean[2:])
        own = [estimated_auc(part.along(before)) for part in days[-1]]
        assert found(prior).mean[3] == pytest.approx(np.mean(own), abs=0.05)
    assert all(chosen)
    assert np.mean(gain) > 0.1
    assert np.mean(honest) == pytest.approx(0.5, abs=0.05)


def test_a_champion_of_other_features_is_no_prior(spark, caplog):
    other = champion(Ranker(np.ones(2), ["a", "b"]))
    assert champion_prior(other, day(3), None, COLUMNS) is None
    assert "is no prior: found no feature of the prior" in caplog.text


def test_a_champion_owes_its_weights_to_all_priors_before_it():
    first = champion(None, 3, 4)
    assert (first_seen(first.record), prior_facts(first)["from"]) == (day(3), day(3))
    second = champion(None, 5, 6, prior=prior_facts(first))
    third = champion(None, 7, 8, prior=prior_facts(second))
    assert third.record["challenger"]["prior"] == {"champion": day(7), "from": day(3)}
    assert first_seen(third.record) == day(3)
    # A window may begin before that of its prior.
    assert first_seen(champion(None, 1, 8, prior=prior_facts(first)).record) == day(1)


def test_the_penalty_without_the_prior_is_the_best_with_the_centre_0():
    made = {"regParam": 9.0, "elasticNetParam": 0.5, "window": "7"}
    assert without_prior(made) == Candidate(9.0, 0.5)
    of = [(0.1, 0.6, False), (1.0, 0.7, False), (9.0, None, False), (9.0, 0.9, True)]
    table = [
        {"regParam": reg, "elasticNetParam": 0.5, "auc": auc, "prior": prior}
        for reg, auc, prior in of
    ]
    made |= {"prior": {}, "selections": {"7": table, "2": []}}
    assert without_prior(made) == Candidate(1.0, 0.5)
    made["selections"] = {"7": table[2:]}
    assert without_prior(made) is None


def test_a_prior_and_segments_are_refused():
    section = SECTION | {"prior": "champion", "training": {"segmentCol": "city"}}
    with pytest.raises(ValidationError, match=r"prior without training\.segmentCol"):
        Retrain.model_validate(section)
    with pytest.raises(ValidationError, match="champion"):
        Retrain.model_validate(SECTION | {"prior": "other"})


def of_rows(recipe, period):
    """Sigma and mu by numpy of a period's rows, from their file."""
    table = pq.read_table(f"clicks/{period}.parquet")
    columns = {name: Numbers(table[name].to_numpy()) for name in ("age", "price")}
    columns["city"] = text(table["city"].to_pylist())
    X, y = recipe.transform(columns).toarray(), table["label"].to_numpy() > 0
    mu = X[y].mean(0) - X[~y].mean(0)
    return np.cov(X[y].T, bias=True) + np.cov(X[~y].T, bias=True) + np.outer(mu, mu), mu


@pytest.mark.slow
def test_a_chain_of_champions_and_the_deletion_of_rows_that_only_its_priors_saw(
    spark, retrain, capsys
):
    """Days of few rows and windows of one day: the champion knows more than a window."""
    settings = {
        "prior": "champion",
        "windows": [1],
        "training": {"regParams": [1e-2, 3.0, 1e3], "tol": 1e-11, "standardization": False},
        "gate": {"oldest": 1, "least": 10},
        "drift": {"stopPSI": 9.0},
    }
    champions = []
    for k in range(5):
        written(k, rows=150)
        code, result = retrain(k, **settings)
        assert code == 0, result
        champions.append(read_champion("model"))
    first, *_, last = [c for c in champions if c is not None]
    promoted = {c.period: c for c in champions if c is not None}
    made = last.record["challenger"]
    assert made["from"] == made["to"] > day(0)
    assert "prior" not in first.record["challenger"]
    prior = promoted[made["prior"]["champion"]]
    assert prior.record["challenger"]["to"] < made["from"]
    assert first_seen(last.record) == made["prior"]["from"] == day(0)

    # Minimise the loss of the window with the centre c w0, by numpy.
    w0, recipe = prior.model.ranker.scorer.w, last.model.recipe
    w = last.model.ranker.scorer.w
    Sigma, mu = of_rows(recipe, made["from"])
    c = w0 @ mu / (w0 @ Sigma @ w0)
    ridge = made["regParam"] * np.eye(mu.size)
    expected = np.linalg.solve(Sigma + ridge, mu + c * (ridge @ w0))
    np.testing.assert_allclose(w, expected, atol=1e-8 * np.abs(expected).max())
    assert {c["prior"] for c in made["selections"]["1"]} == {False, True}
    page = Path(f"history/{last.period}.html").read_text()
    assert f"the prior is the champion of\n{prior.period}" in page

    # Rows of the first day are in no window of the champion, but its priors saw them.
    data = {"path": "clicks/{period}.parquet", "where": "age > 1.1"}
    part = {"request": "a", "data": data, "periods": [day(0)]}
    Path("conf.yaml").write_text(yaml.safe_dump({"retrain": SECTION | settings | {"delete": part}}))
    assert run("retrain", "conf.yaml", parts=["delete"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["champion"]["trained"]
    assert len(result["containing"]) == len(promoted)
    again = read_champion("model")
    new = again.record["challenger"]
    assert "prior" not in new
    # Scores have another scale: they are not compared with those at the gate.
    assert again.record["rescored"] == day(4)
    assert first_seen(again.record) == new["from"] == made["from"]
    assert Candidate(new["regParam"], new["elasticNetParam"]) == without_prior(made)
    expected = by_all_rows(again.model.recipe, again.record)
    found = again.model.ranker.scorer.w
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("chosen", [{"pairs": 5}, {"crosses": "auto"}])
def test_rows_that_would_choose_features_are_held_out(chosen):
    features = SECTION.get("features", {}) | chosen
    with pytest.raises(ValidationError, match="choose them in the job train"):
        Retrain.model_validate(SECTION | {"features": features})
