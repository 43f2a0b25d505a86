"""Writers at the same time: of one period, one commits; of different periods, all commit."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from spark_auc.errors import ConflictError, StoreConflict
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import Window
from tests.store import forked
from tests.store.periods import (
    DAYS,
    FACTS,
    assert_pairs,
    bits,
    bits_of,
    filled,
    fold_rows,
    folds_of,
)


def outcome(store, period, name):
    """The exit code of a job that puts folds."""
    try:
        store.put(period, "clicks", folds_of(name))
    except StoreConflict as error:
        return error.exit_code
    return 0


def race_of_threads(path, periods, names):
    barrier = Barrier(len(names))

    def run(period, name):
        store = MomentStore(str(path), FACTS)
        barrier.wait()
        return outcome(store, period, name)

    with ThreadPoolExecutor(len(names)) as pool:
        return list(pool.map(run, periods, names))


def race_in_process(path, name, periods, barrier, results):
    for period in periods:
        store = MomentStore(str(path), FACTS)
        barrier.wait()
        results.put((period, name, outcome(store, period, name)))
        barrier.wait()


def race_of_processes(path, names, periods):
    """Outcomes by period and name; each process has a list of periods."""
    context = forked.context()
    barrier, results = context.Barrier(len(names)), context.Queue()
    processes = [
        context.Process(target=race_in_process, args=(str(path), name, own, barrier, results))
        for name, own in zip(names, periods, strict=True)
    ]
    for process in processes:
        process.start()
    found = [results.get(timeout=300) for own in periods for _ in own]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return {(period, name): code for period, name, code in found}


def check_winner(path, period, names, codes):
    assert sorted(codes) == [0] + [75] * (len(names) - 1)
    winner = names[codes.index(0)]
    store = MomentStore(str(path), FACTS)
    assert store.sources(period) == ("clicks",)
    [merged] = store.windows([Window(1)], newest=period)
    assert_pairs(merged.total(), fold_rows(winner))


def test_a_period_that_changed_since_opening_is_a_conflict(tmp_path):
    filled(tmp_path, DAYS[:2])
    one, two = (MomentStore(str(tmp_path), FACTS) for _ in range(2))
    one.put(DAYS[0], "clicks", folds_of("one"))
    one.put(DAYS[2], "clicks", folds_of("one"))
    for day in (DAYS[0], DAYS[2]):
        with pytest.raises(StoreConflict, match=r"changed by another job .*run this job again"):
            two.put(day, "clicks", folds_of("two"))
    # Its own commits do not accept those of the other.
    two.put(DAYS[3], "clicks", folds_of("two"))
    with pytest.raises(ConflictError):
        two.put(DAYS[0], "clicks", folds_of("two"))
    two.refresh()
    assert two.put(DAYS[0], "clicks", folds_of("two"))
    assert issubclass(StoreConflict, ConflictError)


@pytest.mark.parametrize("commits", [0, 1])
def test_threads_of_one_period_and_of_different_periods(tmp_path, commits):
    filled(tmp_path, DAYS[:commits])
    names = ["one", "two", "three"]
    codes = race_of_threads(tmp_path, [DAYS[0]] * 3, names)
    check_winner(tmp_path, DAYS[0], names, codes)
    assert race_of_threads(tmp_path, DAYS[1:4], names) == [0, 0, 0]
    for day, name in zip(DAYS[1:4], names, strict=True):
        [merged] = MomentStore(str(tmp_path), FACTS).windows([Window(1)], newest=day)
        assert_pairs(merged.total(), fold_rows(name))


def test_threads_that_create_the_store(tmp_path):
    names = ["one", "two"]
    for number in range(10):
        path = tmp_path / str(number)
        check_winner(path, DAYS[0], names, race_of_threads(path, [DAYS[0]] * 2, names))


def test_a_table_is_created_once(tmp_path):
    # A second creation, committed after the first, would be a conflict of the next commit.
    barrier = Barrier(2)

    def create(path):
        table = MomentStore(str(path), FACTS)._table
        barrier.wait()
        table._created()

    for number in range(60):
        path = tmp_path / str(number)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(create, [path] * 2))
        assert [file.name for file in (path / "_delta_log").glob("*.json")] == [f"{0:020}.json"]


def races(tmp_path, count):
    names = ["one", "two"]
    same = [f"r{number:03}" for number in range(count)]
    codes = race_of_processes(tmp_path / "same", names, [same, same])
    for period in same:
        check_winner(tmp_path / "same", period, names, [codes[period, name] for name in names])
    own = [[f"{name}{number:03}" for number in range(count)] for name in names]
    codes = race_of_processes(tmp_path / "own", names, own)
    assert set(codes.values()) == {0}
    assert MomentStore(str(tmp_path / "own"), FACTS).periods() == tuple(sorted(own[0] + own[1]))


def test_processes(tmp_path):
    races(tmp_path, 3)


@pytest.mark.slow
def test_fifty_races_of_processes(tmp_path):
    races(tmp_path, 50)


def job_to_kill(path, name, progress):
    store = MomentStore(str(path), FACTS)
    for day in DAYS:
        progress.release()
        store.put(day, "clicks", folds_of(day + name))


def kills(path, count, seed):
    """Kill jobs at random moments: each period has its old or its new moments, whole."""
    context, delays = forked.context(), random.Random(seed)
    stored = dict.fromkeys(DAYS)
    ended = set()
    for number in range(count):
        name, progress = f"job{number}", context.Semaphore(0)
        job = context.Process(target=job_to_kill, args=(path, name, progress))
        job.start()
        for _ in range(delays.randint(1, len(DAYS))):
            assert progress.acquire(timeout=120)
        time.sleep(delays.uniform(0, 0.03))
        job.kill()
        job.join()
        store = MomentStore(str(path), FACTS)
        for day in store.periods():
            found = list(map(bits, store.folds(day, "clicks")))
            choices = [c for c in (stored[day], day + name) if c]
            [stored[day]] = [c for c in choices if found == list(map(bits, folds_of(c)))]
        ended.add(sum(stored[day] == day + name for day in DAYS))
    for day in DAYS:
        store.put(day, "clicks", folds_of(day + "last"))
    fresh = MomentStore(str(path) + "fresh", FACTS)
    for day in DAYS:
        fresh.put(day, "clicks", folds_of(day + "last"))
    found, expected = (bits_of(s.windows([Window()])[0]) for s in (store, fresh))
    assert found == expected
    return ended


def test_killed_jobs(tmp_path):
    kills(tmp_path / "store", 2, 0)


@pytest.mark.slow
def test_forty_killed_jobs(tmp_path):
    assert len(kills(tmp_path / "store", 40, 1)) > 3
