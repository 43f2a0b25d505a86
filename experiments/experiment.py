"""An experiment of a paper: a declaration, the one runner of them all, and its statistics."""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import ttest_rel

from spark_auc.core.batch import Batch
from spark_auc.core.types import Float
from spark_auc.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)

_LEVEL = 0.05
# A test of two repeats finds hardly any difference, so that three run however long one takes.
_FEWEST = 3

# A set's mean and standard deviation in the paper, by method; None where the paper prints none.
Figures = Mapping[str, Mapping[str, tuple[float, float | None]]]


def printed(methods: Sequence[str], table: str, factor: float = 1.0) -> Figures:
    """The figures of a table of lines ``set: mean deviation, mean, -, ..``, a column a method.

    A method without a figure has a dash; one without a deviation has the mean alone.
    """
    found = {}
    for line in table.strip().splitlines():
        name, cells = line.strip().split(": ")
        columns = zip(methods, cells.split(", "), strict=True)
        numbers = {
            m: [factor * float(n) for n in cell.split()] for m, cell in columns if cell != "-"
        }
        found[name] = {m: (n[0], n[1] if n[1:] else None) for m, n in numbers.items()}
    return found


class AbsentError(DataError):
    """A set of the paper that is not in the directory of the data."""


@dataclass(frozen=True)
class Limits:
    """What a run does at most; None for no limit.

    Parameters
    ----------
    repeats
        Repeats of an experiment, beside the paper's own number.
    rows
        Training rows of a repeat, drawn at random; test rows are at most four times as many.
    work
        Operations of a search of settings up to which it tries all of the paper's grid.
    seconds
        CPU seconds of an experiment after which no further repeat starts, beyond the first three.
    """

    repeats: int | None = None
    rows: int | None = None
    work: float | None = None
    seconds: float | None = None


class Request(NamedTuple):
    """The rows of one repeat of a set.

    ``seed`` differs between repeats and sets. No more than ``rows`` training rows will be used.
    """

    directory: Path | None
    set: str
    repeat: int
    seed: int
    rows: int | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """Training and test rows of one repeat of a set, and the seed of its methods."""

    set: str
    repeat: int
    train: Batch
    test: Batch
    seed: int
    limits: Limits


class Point(NamedTuple):
    """What a method gave: values by measure, and others that JSON holds; of a curve, at ``x``."""

    values: Mapping[str, Any]
    x: float | None = None


class Verdict(NamedTuple):
    """Whether the paper's claim holds, and what was found."""

    holds: bool
    found: str


@dataclass(frozen=True)
class Measure:
    """A measured value: its heading, the format of its numbers, and the paper's figures."""

    heading: str
    form: str = ".2f"
    paper: Figures = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """A point of a method in one repeat of a set."""

    set: str
    repeat: int
    method: str
    values: Mapping[str, Any]
    x: float | None = None


@dataclass(frozen=True)
class Results:
    """All records of an experiment, and the sets that are absent, with reasons."""

    records: Sequence[Record]
    absent: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, float | None], dict[int, Mapping[str, Any]]]:
        found: dict[tuple[str, str, float | None], dict[int, Mapping[str, Any]]] = {}
        for each in self.records:
            found.setdefault((each.set, each.method, each.x), {})[each.repeat] = each.values
        return found

    @property
    def sets(self) -> list[str]:
        """The measured sets."""
        return list(dict.fromkeys(each.set for each in self.records))

    @property
    def methods(self) -> list[str]:
        """The measured methods."""
        return list(dict.fromkeys(each.method for each in self.records))

    def points(self, name: str, method: str) -> list[float | None]:
        """The places of a method's curve on a set; only None for a table."""
        return [x for a, b, x in self._by_key if (a, b) == (name, method)]

    def values(self, name: str, method: str, measure: str, x: float | None = None) -> Float:
        """A measure of a method on a set ``(repeats,)``; empty if it was not measured."""
        repeats = self._by_key.get((name, method, x), {})
        return np.array([each[measure] for each in repeats.values() if measure in each], float)

    def mean(self, name: str, method: str, measure: str, x: float | None = None) -> float:
        """Mean over the repeats; NaN if it was not measured."""
        values = self.values(name, method, measure, x)
        return float(values.mean()) if values.size else float("nan")

    def last(self, name: str, method: str, measure: str) -> float:
        """Mean over the repeats at the end of a curve."""
        return self.mean(name, method, measure, self.points(name, method)[-1])

    def compared(self, name: str, own: Sequence[str], other: str, measure: str) -> int | None:
        """Whether the best of the paper's methods wins (1), ties (0) or loses (-1) on a set.

        By the paired t-test over the repeats at 95%; None with fewer than two repeats.
        """
        best = max(own, key=lambda method: np.nan_to_num(self.mean(name, method, measure)))
        pair = self.values(name, best, measure), self.values(name, other, measure)
        if pair[0].size != pair[1].size or pair[0].size < 2:
            return None
        difference = pair[0] - pair[1]
        if np.ptp(difference) == 0:
            return int(np.sign(difference[0]))
        significant = ttest_rel(*pair).pvalue < _LEVEL
        return int(significant * np.sign(difference.mean()))

    def tally(self, own: Sequence[str], other: str, measure: str) -> tuple[int, int, int]:
        """Sets on which the paper's methods win, tie and lose."""
        outcomes = [self.compared(name, own, other, measure) for name in self.sets]
        return outcomes.count(1), outcomes.count(0), outcomes.count(-1)


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper.

    Parameters
    ----------
    paper, what, title
        The paper, its table or figure, and what this is about.
    about
        The protocol, and where it differs from the paper's.
    claim
        What the paper claims, as a clause.
    verdict
        Whether the claim holds.
    sets
        The paper's sets, absent ones too, and where the rows of a repeat come from; a set that is
        not there raises `AbsentError`.
    methods
        The compared methods. Each trains on a case, and gives one point, or those of a curve.
    own
        The methods that the paper proposes, with which the others are compared by t-tests.
    measures
        What the points have, and the paper's figures; the tests are of the first.
    repeats
        The paper's number of repeats; ours where it prints none.
    row_scale
        Factor of the limit of rows, for methods that take little time per row.
    x
        What `Point.x` is; empty for a table.
    against
        The measure that a picture of a curve has as abscissa; by default it is ``x``.
    log
        Whether the abscissa is logarithmic.
    pictures
        Pictures by name; by default one of all measures.
    tallies
        The paper's wins, ties and losses against other methods.
    """

    paper: str
    what: str
    title: str
    about: str
    claim: str
    verdict: Callable[[Results], Verdict]
    sets: Mapping[str, Callable[[Request], tuple[Batch, Batch]]]
    methods: Mapping[str, Callable[[Case], Iterable[Point]]]
    measures: Mapping[str, Measure]
    own: Sequence[str] = ()
    repeats: int = 1
    row_scale: int = 1
    x: str = ""
    against: str = ""
    log: bool = False
    pictures: Mapping[str, Callable[[Results], Figure]] = field(default_factory=dict)
    tallies: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    def run(self, directory: Path | None, limits: Limits, seed: int) -> Results:
        """Run all methods on all repeats of all sets, within the limits.

        Raises
        ------
        AbsentError
            No set of the experiment is there.
        """
        start, records, absent = time.process_time(), list[Record](), dict[str, str]()
        repeats = min(limits.repeats or self.repeats, self.repeats)
        for k, (name, rows) in enumerate(self.sets.items()):
            deadline = (limits.seconds or np.inf) * (k + 1) / len(self.sets)
            longest = 0.0
            for repeat in range(repeats):
                begin = time.process_time()
                if repeat >= _FEWEST and begin - start + longest > deadline:
                    break
                drawn = np.random.default_rng((seed, zlib.crc32(name.encode()), repeat))
                most = limits.rows and limits.rows * self.row_scale
                request = Request(directory, name, repeat, int(drawn.integers(2**31)), most)
                try:
                    train, test = rows(request)
                except AbsentError as error:
                    absent[name] = str(error)
                    break
                parts = _at_most(train, most, drawn), _at_most(test, most and 4 * most, drawn)
                case = Case(name, repeat, *parts, request.seed, limits)
                for method, trained in self.methods.items():
                    records += [
                        Record(name, repeat, method, dict(point.values), point.x)
                        for point in trained(case)
                    ]
                longest = max(longest, time.process_time() - begin)
                _log.info("%s, %s: repeat %d, %.1f s", self.what, name, repeat + 1, longest)
        if not records:
            raise AbsentError(f"found none of its sets ({'; '.join(absent.values())})")
        return Results(records, absent)

    def stored(self, results: Results) -> dict[str, Any]:
        """The results as JSON."""
        return {"absent": dict(results.absent), "records": [asdict(r) for r in results.records]}


def _at_most(rows: Batch, most: int | None, rng: np.random.Generator) -> Batch:
    """Random rows of a part, in their order, if it has more."""
    if most is None or rows.y.size <= most:
        return rows
    return rows.take(np.sort(rng.choice(rows.y.size, most, replace=False)))


def superior(
    own: Sequence[str],
    others: Sequence[str],
    rule: Callable[[int, int, int], bool] = lambda win, tie, loss: win > loss,
) -> Callable[[Results], Verdict]:
    """The claim that a paper's methods are better in AUC than each other one.

    ``rule`` says it of the numbers of sets on which they win, tie and lose; by default, that they
    win on more sets than they lose.
    """

    def verdict(results: Results) -> Verdict:
        tallies = {each: results.tally(own, each, "auc") for each in others}
        counts = "; ".join(f"{each} {'/'.join(map(str, n))}" for each, n in tallies.items())
        return Verdict(
            all(rule(*tally) for tally in tallies.values()),
            f"sets on which {' or '.join(own)} wins, ties and loses: {counts}",
        )

    return verdict
