"""Each table and figure of the papers on linear methods, once on made-up rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from experiments import adadsg, mba, mba_benchmarks, mba_clicks, opauc, solam
from experiments.experiment import AbsentError, Limits, Results
from experiments.page import page, pictures
from experiments.reproduce import EXPERIMENTS
from spark_auc.core.batch import Batch

MODULES = (mba, mba_benchmarks, mba_clicks, opauc, solam, adadsg)
DECLARED = {name: each for module in MODULES for name, each in module.EXPERIMENTS.items()}
COLUMNS = 12


def made(request):
    """Rows of a third of positives, whose columns tell a little each."""
    rng = np.random.default_rng(request.seed)
    parts = []
    for n in (240, 150):
        y = np.arange(n) % 3 == 0
        X = rng.normal(size=(n, COLUMNS)) + 0.6 * y[:, None]
        X = X if "component" in request.set else sparse.csr_matrix(X / 4)
        parts.append(Batch(X, y, None, np.arange(n, dtype=np.uint64)))
    return tuple(parts)


@pytest.mark.parametrize("name", DECLARED)
def test_an_experiment_runs_and_has_its_page(name):
    experiment = DECLARED[name]
    *_, last = experiment.sets
    small = replace(experiment, sets={last: made}, row_scale=1)
    results = small.run(None, Limits(repeats=2, rows=200, work=1e4), 0)
    assert results.methods == list(experiment.methods)
    assert len(results.records) >= 2 * len(experiment.methods)
    # Half of the methods at least rank rows that nearly tell themselves.
    aucs = [
        results.last(last, method, "auc")
        for method in results.methods
        if results.values(last, method, "auc", results.points(last, method)[-1]).size
    ]
    assert 99.5 > np.median(aucs) > 75
    text = page(small, results, Limits(), 1.0)
    assert text.startswith(f"# {experiment.paper}, {experiment.what}: {experiment.title}\n")
    assert f"The claim, {experiment.claim}, " in text
    assert "Repeats of each set: 2" in text
    assert all(figure.axes for figure in pictures(small, results).values())
    # Tests are of the paper's own methods, tallies of the others.
    assert {*experiment.own, *experiment.tallies} <= set(experiment.methods)
    for measure in experiment.measures.values():
        assert set(measure.paper) <= set(experiment.sets)
        assert {m for row in measure.paper.values() for m in row} <= set(experiment.methods)


def test_every_experiment_names_what_is_absent(tmp_path):
    for experiment in DECLARED.values():
        absent = [name for name in experiment.sets if "compon" not in name and "gener" not in name]
        for name in absent:
            with pytest.raises(AbsentError, match="put its files there"):
                replace(experiment, sets={name: experiment.sets[name]}).run(tmp_path, Limits(), 0)
    assert set(DECLARED) <= set(EXPERIMENTS)


def test_wide_sets_take_other_methods():
    taken = solam.narrow(lambda case: "full", lambda case: "wide")

    class Case:
        def __init__(self, columns):
            self.train = Batch(sparse.csr_matrix((2, columns)), np.array([True, False]))

    assert [taken(Case(d)) for d in (9_999, 10_000)] == ["full", "wide"]


def test_generated_clicks_are_those_of_a_seed_and_no_more_than_needed():
    from experiments.experiment import Request

    request = Request(None, "generated clicks", 0, 3, 500)
    (train, test), (again, _) = (mba_clicks._generated(request) for _ in range(2))
    assert (train.y.size, test.y.size) == (500, 125)
    np.testing.assert_array_equal(train.X.toarray(), again.X.toarray())
    np.testing.assert_array_equal(train.y, again.y)
    assert 0.05 < train.y.mean() < 0.5


def test_a_lead_is_of_the_best_penalties_and_tested():
    from experiments.experiment import Record

    def results(*differences):
        return Results(
            [
                Record("criteo", repeat, method, {"auc": auc}, x)
                for repeat, difference in enumerate(differences)
                for method, x, auc in (
                    ("MBA-l2", 0.1, 60.0),
                    ("MBA-l2", 0.01, 70.0 + difference),
                    ("OLR", 0.1, 70.0),
                    ("OLR", 0.01, 50.0),
                )
            ]
        )

    holds, found = mba_clicks.leads(results(0.4, 0.5, 0.6))
    assert holds
    assert "criteo MBA-l2 +0.50 from OLR (p = 0.013, paper +0.54)" in found
    assert not mba_clicks.leads(results(-0.4, 0.5, 0.6)).holds
