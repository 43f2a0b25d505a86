"""Samples of groups of rows by the hash of their key: the same rows in every pass."""

from __future__ import annotations

from dataclasses import dataclass

from spark_auc.core.batch import Batch, hashed_shares
from spark_auc.core.types import Bool, Keys
from spark_auc.core.validation import check_above, check_whole
from spark_auc.errors import ConfigError

# Separates this use of a seed from that of folds, which must not depend on the sample.
_SAMPLE = 0x6B


@dataclass(frozen=True)
class KeySample:
    """A share of the groups of rows, which a feature map that looks at labels may learn from.

    Scores of these rows by the map are too good. Weights and penalties of its features are
    therefore learnt from the other rows, as in honest trees [1]_. The groups are those of folds:
    rows with equal values, or of one user key, are on the same side. The sample depends on seed
    and group only, and not on the order of the rows, on partitions or on other rows.

    Parameters
    ----------
    share
        Probability of a group to be in the sample, above 0 and below 1.
    seed
        A whole number of at least 0.

    References
    ----------
    .. [1] S. Wager, S. Athey. Estimation and Inference of Heterogeneous Treatment Effects using
       Random Forests. JASA 113 (2018). Procedure 1.

    Raises
    ------
    ConfigError
        A setting is out of its range.
    """

    share: float
    seed: int = 0

    def __post_init__(self) -> None:
        check_above("share", self.share, 0.0)
        check_whole("seed", self.seed, 0)
        if self.share >= 1.0:
            raise ConfigError(
                f"found share = {self.share} of the rows to learn a feature map from, expected "
                "less than 1, as the other rows are for the weights; set a lower share"
            )

    def limited(self, most: int, rows: int) -> KeySample:
        """The sample of a lower share that has some ``most`` of so many rows, if this has more.

        The lower sample is a part of this one.
        """
        check_whole("most", most, 1)
        return KeySample(min(self.share, most / max(rows, 1)), self.seed)

    def of(self, groups: Keys) -> Bool:
        """Whether each group ``(n,)`` is in the sample."""
        inside: Bool = hashed_shares(groups, self.seed, _SAMPLE) < self.share
        return inside

    def inside(self, batch: Batch) -> Bool:
        """Whether each row ``(n,)`` of a batch is in the sample; see `Batch.groups`."""
        return self.of(batch.groups())

    def outside(self, batch: Batch) -> Bool:
        """Whether each row ``(n,)`` of a batch is one of the others."""
        return ~self.inside(batch)
