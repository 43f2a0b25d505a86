"""Publications that overlap, and those that die at any step, in processes of their own."""

import json
import multiprocessing
import os
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest

from spark_auc.errors import ConfigError, ConflictError
from spark_auc.publication import publish as publishing
from spark_auc.publication.directory import Directory
from spark_auc.publication.manifest import MANIFEST
from spark_auc.publication.publish import publication
from spark_auc.publication.versions import current

FORK = multiprocessing.get_context("fork")
TIMEOUT = 60


def publish(out, text, *, replace=True, between=lambda: None, late=lambda: None):
    with publication(str(out), replace, "model") as version:
        version.write("model/a.txt", text.encode() * 1000)
        between()
        version.write("model/b.txt", text.encode() * 1000)
        version.write_json("c.json", {"text": text})
        late()


def whole(out):
    """What is published, of one job's files alone."""
    version = current(str(out), "model")
    text = json.loads(version.read("c.json"))["text"]
    for name in ("model/a.txt", "model/b.txt"):
        assert version.read(name) == text.encode() * 1000
    return text


def job(queue, out, text, replace, waits, tells):
    def between():
        tells.set()
        assert waits is None or waits.wait(TIMEOUT)

    try:
        publish(out, text, replace=replace, between=between)
        queue.put((text, "ok"))
    except (ConflictError, ConfigError) as error:
        queue.put((text, type(error).__name__))


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("winner", ["first", "second"])
def test_whichever_ends_first_stays(tmp_path, winner, replace):
    out, queue = tmp_path / "out", FORK.Queue()
    if replace:
        publish(out, "old")
    begun, done = [FORK.Event(), FORK.Event()], FORK.Event()
    names = ["first", "second"]
    started = []
    for k, name in enumerate(names):
        # The later to end waits until the other has ended.
        waits = begun[1] if name == winner else done
        process = FORK.Process(target=job, args=(queue, out, name, replace, waits, begun[k]))
        process.start()
        started.append(process)
        assert begun[k].wait(TIMEOUT)
    assert queue.get(timeout=TIMEOUT) == (winner, "ok")
    assert whole(out) == winner
    unfinished = len([path for path in (out / "versions").iterdir() if path.is_dir()])
    assert unfinished == 2 + replace
    done.set()
    [loser] = set(names) - {winner}
    assert queue.get(timeout=TIMEOUT) == (loser, "ConflictError")
    for process in started:
        process.join(TIMEOUT)
    assert whole(out) == winner
    assert ConflictError.exit_code == 75
    # The loser leaves nothing behind, and may run again.
    assert len([path for path in (out / "versions").iterdir() if path.is_dir()]) == 1 + replace
    publish(out, loser)
    assert whole(out) == loser


def race(queue, out, text, barrier):
    try:
        publish(out, text, late=lambda: barrier.wait(TIMEOUT))
        queue.put("ok")
    except ConflictError:
        queue.put("lost")


def test_of_jobs_that_end_at_once_one_stays(tmp_path):
    for k in range(10):
        out, queue, barrier = tmp_path / str(k), FORK.Queue(), FORK.Barrier(3)
        jobs = [FORK.Process(target=race, args=(queue, out, f"{n}", barrier)) for n in range(3)]
        for process in jobs:
            process.start()
        found = sorted(queue.get(timeout=TIMEOUT) for _ in jobs)
        for process in jobs:
            process.join(TIMEOUT)
        assert found == ["lost", "lost", "ok"]
        assert whole(out) in {"0", "1", "2"}


def test_without_locks_the_loser_is_told(tmp_path, monkeypatch):
    """On a file system without locks, another job may write its manifest over this one's."""
    out = tmp_path / "out"
    put = Directory.replace

    def overwritten(self, name, content, *, through=None):
        put(self, name, content, through=through)
        monkeypatch.setattr(Directory, "replace", put)
        publish(out, "other")

    monkeypatch.setattr(publishing, "_lock", lambda _: nullcontext())
    monkeypatch.setattr(Directory, "replace", overwritten)
    with pytest.raises(ConflictError, match="another job published"):
        publish(out, "mine")
    assert whole(out) == "other"


def dying_at(step, work):
    """Whether the work ended, in a process that is killed at a step of its."""
    child = os.fork()
    if child == 0:
        left = [step]

        def counted(function):
            def called(*given, **others):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                found = function(*given, **others)
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return found

            return called

        def torn(self, name, content):
            half(self, name, content[: len(content) // 2])
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            write(self, name, content)

        try:
            half, write = Directory.write, counted(Directory.write)
            Directory.write = torn
            os.fsync, os.replace = counted(os.fsync), counted(os.replace)
            publishing.fcntl.flock = counted(publishing.fcntl.flock)
            publishing.content_of = counted(publishing.content_of)
            publishing._delete = counted(publishing._delete)
            publishing._GRACE_SECONDS = 0.0
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0
    return True


@pytest.mark.parametrize("before", [0, 2])
def test_a_job_that_is_killed_leaves_the_old_or_the_new(tmp_path, before, monkeypatch):
    # A process that is killed leaves what it wrote, on disk or not.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    found = []
    for step in range(1, 1000):
        out = tmp_path / str(step)
        for k in range(before):
            publish(out, f"old{k}")
        ended = dying_at(step, lambda there=out: publish(there, "new"))
        if before or (out / MANIFEST).exists():
            found.append(whole(out))
        else:
            found.append("none")
        # A reader of the version before still finds it until the next publication.
        publish(out, "again")
        assert whole(out) == "again"
        if ended:
            break
    assert len(found) > 30
    old = f"old{before - 1}" if before else "none"
    first = found.index("new")
    assert found == [old] * first + ["new"] * (len(found) - first)
    assert first > 20
    assert len(found) - first >= 3
    assert Path(out).exists()
