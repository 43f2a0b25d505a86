"""Processes that are forked by a server, which is warm before it forks them."""

import multiprocessing

import deltalake  # noqa: F401
import pandas as pd  # noqa: F401

from tests.store.periods import folds_of


def context():
    """A context whose processes share no state with this one, and need not load what they use."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload([__name__, "tests.store.test_writers"])
    return made


folds_of("loads the kernels")
