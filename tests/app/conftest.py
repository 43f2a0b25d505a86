"""What the tests of jobs share."""

import shutil

import pytest


@pytest.fixture(scope="module")
def _places(tmp_path_factory):
    return tmp_path_factory.mktemp("places")


@pytest.fixture
def made_once(_places, monkeypatch):
    """Go to a directory that is made once in a module, and restored for each test.

    It has the same path each time, since jobs store paths.
    """

    def gone(name, make):
        place, copy = _places / name, _places / f"{name}.copy"
        shutil.rmtree(place, ignore_errors=True)
        if copy.exists():
            shutil.copytree(copy, place)
            monkeypatch.chdir(place)
            return
        place.mkdir()
        monkeypatch.chdir(place)
        make()
        shutil.copytree(place, copy)

    return gone


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
