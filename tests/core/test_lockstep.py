"""Threads whose requests are answered together."""

import threading
import time

import pytest

from spark_auc.core.lockstep import Lockstep


def recording(answers):
    def answer(requests):
        answers.append((list(requests), threading.get_ident()))
        return [10 * request for request in requests]

    return answer


def test_one_answer_serves_the_requests_of_all_that_still_run():
    answers = []
    shared = Lockstep(recording(answers))

    def count(steps):
        time.sleep(0.01 * (3 - steps))
        return sum(shared.ask(100 * steps + step) for step in range(steps))

    assert list(shared.map(count, [1, 3, 2])) == [1000, 9030, 4010]
    assert [requests for requests, _ in answers] == [[100, 300, 200], [301, 201], [302]]
    # Spark jobs begin in the caller's thread.
    assert {thread for _, thread in answers} == {threading.get_ident()}


def test_a_request_of_no_thread_is_answered_alone():
    answers = []
    shared = Lockstep(recording(answers))
    assert shared.ask(4) == 40
    assert list(shared.map(lambda _: 0, [])) == []
    assert list(shared.map(shared.ask, range(2))) == [0, 10]
    assert list(shared.map(shared.ask, range(3), at_once=2)) == [0, 10, 20]
    assert [requests for requests, _ in answers] == [[4], [0, 1], [0, 1], [2]]


def test_an_error_in_the_answer_ends_all_threads():
    def answer(requests):
        raise ValueError("no rows")

    shared = Lockstep(answer)
    ended = []

    def run(number):
        try:
            shared.ask(number)
        finally:
            ended.append(number)

    with pytest.raises(ValueError, match="no rows"):
        list(shared.map(run, range(3)))
    assert sorted(ended) == [0, 1, 2]


def test_an_error_of_one_thread_does_not_stop_the_others():
    answers = []
    shared = Lockstep(recording(answers))

    def run(number):
        if number == 1:
            raise KeyError("one")
        return shared.ask(number) + shared.ask(number)

    with pytest.raises(KeyError, match="one"):
        list(shared.map(run, range(3)))
    assert [requests for requests, _ in answers] == [[0, 2], [0, 2]]
    # It serves again.
    assert list(shared.map(shared.ask, [7])) == [70]
