"""Two classes of Gaussian mixtures and their optimal ranker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

from spark_auc.core.batch import Batch
from spark_auc.core.types import Float

DIMENSION = 100


@dataclass(frozen=True)
class Mixture:
    """Mixtures of Gaussians of unit covariance in `DIMENSION` features.

    Parameters
    ----------
    means
        Mean of each component, equal in all coordinates.
    negative, positive
        Share of each component in the class.
    """

    means: tuple[float, ...]
    negative: tuple[float, ...]
    positive: tuple[float, ...]

    def sample(self, rng: np.random.Generator, negatives: int, positives: int) -> Batch:
        """Draw rows of each class; the negative rows come first."""
        components = [
            rng.choice(len(self.means), size, p=shares)
            for size, shares in ((negatives, self.negative), (positives, self.positive))
        ]
        X = rng.standard_normal((negatives + positives, DIMENSION))
        X += np.take(self.means, np.concatenate(components))[:, None]
        return Batch(X, np.arange(negatives + positives) >= negatives)

    def log_ratio(self, X: Float) -> Float:
        """The Neyman-Pearson score ``log p_+(x) / p_-(x)`` ``(n,)``, which has the highest AUC."""
        means = np.array(self.means)
        # The densities' common factor cancels; the rest depends on the sum of the features.
        exponents = X.sum(axis=1)[:, None] * means - DIMENSION * means**2 / 2

        def log_density(shares: Sequence[float]) -> Float:
            density: Float = logsumexp(exponents, axis=1, b=np.array(shares))
            return density

        return log_density(self.positive) - log_density(self.negative)

    @property
    def best_auc(self) -> float:
        """AUC of `log_ratio`, if the share of positive rows increases with the mean.

        The score then increases with the sum of the features, which is Gaussian in each component.
        """
        means = np.sqrt(DIMENSION) * np.array(self.means)
        won = ndtr((means[:, None] - means) / np.sqrt(2))
        return float(self.positive @ won @ np.array(self.negative))


# The mixtures of MBA, Section IV-A, by number of components.
MIXTURES = {
    1: Mixture((-0.1, 0.1), (1.0, 0.0), (0.0, 1.0)),
    2: Mixture((-0.1, 0.1), (0.9, 0.1), (0.1, 0.9)),
    3: Mixture((-0.1, 0.0, 0.1), (0.8, 0.1, 0.1), (0.1, 0.1, 0.8)),
}
