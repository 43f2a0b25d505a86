"""What the tests of jobs share."""

import pytest


@pytest.fixture
def all_pictures():
    """For tests whose evaluations draw all of their pictures; see `one_picture`."""


@pytest.fixture(autouse=True)
def one_picture(request, monkeypatch):
    """Evaluations draw one of their five pictures, which take a fifth of a small job's time."""
    if "all_pictures" in request.fixturenames:
        return
    from spark_auc.app.jobs import evaluation

    drawn = evaluation.pictures
    monkeypatch.setattr(evaluation, "pictures", lambda result: {"roc": drawn(result)["roc"]})
