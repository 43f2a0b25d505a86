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
    """For tests of what reports show; see `no_pictures`."""


@pytest.fixture(autouse=True)
def no_pictures(request, monkeypatch):
    """Reports have no pictures, which take three quarters of the time of a small job."""
    if "all_pictures" in request.fixturenames:
        return
    from spark_auc.app.jobs import evaluation, train

    monkeypatch.setattr(evaluation, "pictures", lambda result: {})
    monkeypatch.setattr(evaluation, "shape_pictures", lambda found: {})
    monkeypatch.setattr(evaluation, "weights_picture", lambda weights: None)
    monkeypatch.setattr(train, "drawable", lambda: False)
