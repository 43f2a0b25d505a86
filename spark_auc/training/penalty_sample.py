"""The sample of many rows on which ridge penalties are compared where there is no matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from spark_auc.core.batch import Batch, hashed_shares
from spark_auc.core.row_source import ArrayRows, RowSource, rows_where
from spark_auc.core.types import Bool, Float
from spark_auc.solvers.candidates import Selection
from spark_auc.training.problem import TrainingRows
from spark_auc.training.settings import TrainingSettings

# Stored entries of a sample, about: twenty-five penalties in five folds take half a minute.
ENTRIES = 1 << 22
# Keeps the draw independent of others by the same keys.
_SALT = 0x5A3B1E


class PenaltySample(NamedTuple):
    """A sample of each class, and what a penalty of all rows is on it.

    The variance of the mean loss of all pairs is about proportional to ``1 / n+ + 1 / n-``, and the
    best ridge factor is about proportional to this variance.

    Parameters
    ----------
    shares : (2,)
        Share of the positive and of the negative rows. The rarer class is thinned out last.
    factor
        A penalty of all rows, divided by that of the sample which stands for it.
    """

    shares: Float
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
        rows = survey.columns.rows
        most = ENTRIES * rows.sum() / max(float(survey.columns.entries.sum()), 1.0)
        if selected.has_matrix or selected.steps is not None or rows.sum() <= 2 * most:
            return None
        fewest = min(rows.min(), most / 2)
        sizes = np.full(2, most - fewest)
        sizes[rows.argmin()] = fewest
        sizes = np.minimum(sizes, rows)
        return cls(sizes / rows, float((1 / rows).sum() / (1 / sizes).sum()))

    def rows(self, selected: TrainingRows, seed: int) -> ArrayRows:
        """The rows of the sample, which depends on their keys and the seed."""

        def drawn(batch: Batch) -> Bool:
            share = np.where(batch.y, *self.shares)
            return np.asarray(hashed_shares(batch.keys(), seed, _SALT) < share)

        return cast(RowSource, selected.rows).changed(rows_where(drawn)).gathered()

    def settings(self, settings: TrainingSettings) -> TrainingSettings:
        """The settings of the choice on the sample."""
        if settings.reg_params is None:
            return settings
        values = tuple(value / self.factor for value in settings.reg_params)
        return replace(settings, reg_params=values)

    def selection(self, chosen: Selection) -> Selection:
        """What was chosen on the sample, with the penalties of all rows."""
        candidates = (replace(c, regParam=c.regParam * self.factor) for c in chosen.candidates)
        return replace(chosen, candidates=tuple(candidates))
