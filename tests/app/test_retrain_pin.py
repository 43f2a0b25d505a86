"""The pin of a retraining: rollback to a kept champion, and no replacement until it is unset."""

import json
import shutil
from pathlib import Path

import pytest

from spark_auc.app.jobs import retrain_period
from spark_auc.app.jobs.champion import published_record, read_champion
from spark_auc.app.running import run
from spark_auc.publication.versions import current
from tests.app.test_retrain import day, records, retrain, written

pytest.importorskip("deltalake")
pytestmark = pytest.mark.usefixtures("spark")
__all__ = ["retrain"]

# Every challenger that is not significantly worse is promoted.
YOUNG = {"gate": {"oldest": 1}}


def files_of(version):
    """The bytes of a version's files, but the record."""
    return {n: version.read(n) for n in version.files() if n != "champion.json"}


def state():
    """All files that a run may change."""
    places = (Path("model"), Path("history"), Path("moments"))
    return {p: p.read_bytes() for place in places for p in place.rglob("*") if p.is_file()}


@pytest.mark.slow
def test_a_kept_champion_is_published_again_and_remains(retrain):
    for k in range(6):
        written(k)
    published = {}
    for k in range(4):
        code, result = retrain(k, **YOUNG)
        assert code == 0
        if k:
            assert read_champion("model").period == day(k)
            published[k] = files_of(current("model", "model"))
    assert result["keptChampions"] == [day(2), day(1)]

    # A period without a kept champion, and a dry run.
    before = state()
    code, result = retrain(3, **YOUNG, pinned=day(0))
    assert code == 2
    assert f"2 kept earlier ones ({day(2)}, {day(1)})" in result["message"]
    code, result = retrain(3, **YOUNG, pinned=day(1), dryRun=True)
    assert (code, result["champion"], state()) == (0, day(1), before)

    # The rollback: the files of then, recorded after the newest period; a rerun changes nothing.
    code, result = retrain(3, **YOUNG, pinned=day(1))
    assert (code, result["champion"], result["periods"]) == (0, day(1), [])
    assert result["keptChampions"] == [day(3), day(2), day(1)]
    assert files_of(current("model", "model")) == published[1]
    (rollback,) = records()[3]["rollbacks"]
    assert (rollback["from"], rollback["to"], rollback["after"]) == (day(3), day(1), day(3))
    assert "rolled back" in Path("history/history.html").read_text()
    rolled_back = state()
    assert retrain(3, **YOUNG, pinned=day(1))[0] == 0
    assert state() == rolled_back

    # A pinned champion is judged and remains.
    code, result = retrain(4, **YOUNG, pinned=day(1))
    assert (code, result["decision"], result["champion"]) == (0, "kept", day(1))
    assert result["reason"].startswith("the champion is pinned; else the challenger is promoted")
    assert not records()[4]["won"]
    assert records()[4]["z"] is not None

    # Unpinned, its age counts from the rollback, which the gate's reason names.
    code, result = retrain(5, gate={"oldest": 3})
    assert (code, result["decision"], result["champion"]) == (0, "kept", day(1))
    assert "age is 2 of 3 periods" in result["reason"]
    assert len(records()[3]["rollbacks"]) == 1

    # A kept version whose file was changed is refused, and nothing is published.
    version = next(
        p
        for p in Path("model/versions").iterdir()
        if (p / "champion.json").is_file()
        and json.loads((p / "champion.json").read_text())["period"] == day(2)
    )
    scores = version / "scores"
    scores.write_bytes(bytes([scores.read_bytes()[0] ^ 1]) + scores.read_bytes()[1:])
    before = state()
    code, result = retrain(5, pinned=day(2))
    assert (code, state()) == (1, before), result
    assert "changed files" in result["message"]


@pytest.mark.slow
def test_a_rollback_during_a_run_and_one_that_was_killed(retrain, monkeypatch):
    for k in range(4):
        written(k)
    assert retrain(2, **YOUNG)[0] == 0
    trained = retrain_period.challenger

    # Another job rolls back while this one trains, whatever this one decides.
    shutil.copytree(".", "../copy")
    for outcome, others in (("promoted", YOUNG), ("kept", {})):

        def rolls_back(*arguments):
            monkeypatch.setattr(retrain_period, "challenger", trained)
            assert retrain(2, pinned=day(1))[0] == 0
            return trained(*arguments)

        monkeypatch.setattr(retrain_period, "challenger", rolls_back)
        code, result = retrain(3, **others)
        assert code == 75, (outcome, result)
        assert published_record("model")["rollback"]["to"] == day(1)
        assert [r["period"] for r in records()] == [day(0), day(1), day(2)]
        # The rerun ends it: the rolled back champion is judged.
        code, result = retrain(3, **others)
        assert code == 0
        assert records()[3]["champion"] == day(1)
        for p in (Path("model"), Path("history"), Path("moments")):
            shutil.rmtree(p)
            shutil.copytree(Path("../copy") / p, p)

    # A run that was killed between the publication of a rollback and its record.
    def die(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr("spark_auc.app.jobs.retrain_history.History.roll_back", die)
        pinned = [f"retrain.pinned={day(1)}", f"retrain.period={day(2)}"]
        assert run("retrain", "conf.yaml", pinned) == 130
    assert published_record("model")["period"] == day(1)
    assert "rollbacks" not in records()[2]
    code, result = retrain(2)
    assert (code, result["champion"]) == (0, day(1))
    assert records()[2]["rollbacks"] == [published_record("model")["rollback"]]
