"""The sample of many rows on which ridge penalties are compared where there is no matrix."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import cycle
from typing import NamedTuple, cast

import numpy as np

from spark_auc.core.batch import Batch, hashed_shares
from spark_auc.core.row_source import ArrayRows, RowSource, rows_where
from spark_auc.core.types import Bool
from spark_auc.solvers.candidates import Selection
from spark_auc.training.problem import TrainingRows
from spark_auc.training.settings import TrainingSettings

_log = logging.getLogger(__name__)

# Stored entries of a sample, about: twenty-five penalties in five folds take half a minute.
ENTRIES = 1 << 22
# Keeps the draw independent of others by the same keys.
_SALT = 0x5A3B1E


class PenaltySample(NamedTuple):
    """A sample of the rows, and what a penalty of all rows is on it.

    The variance of the mean loss of all pairs is about proportional to ``1 / n+ + 1 / n-``, and the
    best ridge factor is about proportional to this variance.

    Parameters
    ----------
    rows
        The rows of the sample. The rarer class is thinned out last.
    factor
        A penalty of all rows, divided by that of the sample which stands for it.
    """

    rows: ArrayRows
    factor: float

    @classmethod
    def of(cls, selected: TrainingRows, settings: TrainingSettings) -> PenaltySample | None:
        """The sample for a choice; None where the penalties are compared on all rows.

        Parameters
        ----------
        selected
            The rows.
        settings
            The candidates. An l1 factor does not scale as ridges do.
        """
        survey = selected.survey
        if survey is None or survey.arrivals is not None or any(settings.elastic_net_params):
            return None
        counts = survey.columns.rows
        most = ENTRIES * counts.sum() / max(float(survey.columns.entries.sum()), 1.0)
        if selected.has_matrix or selected.steps is not None or counts.sum() <= 2 * most:
            return None
        fewest = min(counts.min(), most / 2)
        sizes = np.full(2, most - fewest)
        sizes[counts.argmin()] = fewest
        shares = np.minimum(sizes / counts, 1.0)

        def drawn(batch: Batch) -> Bool:
            # By content: the keys of a batch can be those of a few large groups.
            keys = batch._replace(key=None).keys()
            share = np.where(batch.y, *shares)
            return np.asarray(hashed_shares(keys, settings.folds.seed, _SALT) < share)

        rows = cast(RowSource, selected.rows).changed(rows_where(drawn)).gathered()
        positive = sum(int(batch.y.sum()) for batch in rows.batches)
        found = np.array([positive, sum(batch.y.size for batch in rows.batches) - positive])
        if (found < shares * counts / 2).any():
            # Few distinct rows make the share of a draw random.
            return None
        factor = float((1 / counts).sum() / (1 / found).sum())
        _log.info(
            "comparing penalties on a sample of %d of %.0f positive and %d of %.0f negative rows; "
            "a penalty of all rows is %.3g times that of the sample",
            *(found[0], counts[0], found[1], counts[1], factor),
        )
        return cls(rows, factor)

    def settings(self, settings: TrainingSettings) -> TrainingSettings:
        """The settings of the choice on the sample."""
        if settings.reg_params is None:
            return settings
        values = tuple(value / self.factor for value in settings.reg_params)
        return replace(settings, reg_params=values)

    def selection(self, chosen: Selection, settings: TrainingSettings) -> Selection:
        """What was chosen on the sample, with the penalties of all rows."""
        values = settings.reg_params or [c.regParam * self.factor for c in chosen.candidates]
        # Candidates with a prior have the same values again.
        pairs = zip(chosen.candidates, cycle(values), strict=False)
        candidates = tuple(replace(c, regParam=v) for c, v in pairs)
        rows = sum(batch.y.size for batch in self.rows.batches)
        return replace(chosen, candidates=candidates, sample=rows)
