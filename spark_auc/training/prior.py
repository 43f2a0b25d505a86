"""An earlier ranker as the centre of the penalty of a training run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError
from spark_auc.features.recipe import Recipe
from spark_auc.solvers.prior import Centred, centred

_log = logging.getLogger(__name__)

# Names of features that a report or a message lists.
_LISTED = 30


@dataclass(frozen=True, eq=False)
class Prior:
    """Weights of an earlier ranker, in the order of the features trained on.

    Parameters
    ----------
    w : (d,)
        Weights of raw columns; 0 for features that the earlier ranker does not have.
    shared
        Number of features that both have.
    absent
        Names of features of the earlier ranker that are not trained on, by descending weight.
    """

    w: Float
    shared: int
    absent: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, w: Float, names: Sequence[str] | None, dimension: int, features: Sequence[str] | None
    ) -> Prior:
        """The weights by name, or by position if one of both has no names.

        Parameters
        ----------
        w : (k,)
            Weights of the earlier ranker, for raw columns.
        names : (k,)
            Names of its features; None if they have no names.
        dimension
            Number ``d`` of features trained on.
        features : (d,)
            Their names; None if they have no names.

        Raises
        ------
        ConfigError
            A weight is not finite, a name is not unique, no feature is shared, or there are no
            names and the numbers of features differ.
        """
        if not np.isfinite(w).all():
            raise ConfigError(
                f"found the prior's weight {w[~np.isfinite(w)][0]}, expected finite weights; name "
                "another prior"
            )
        if names is None or features is None:
            if w.size != dimension:
                raise ConfigError(
                    f"found a prior of {w.size} features without names for rows of {dimension} "
                    "features, expected as many; name a prior of the same features, or train both "
                    "on columns with names"
                )
            return cls(w, dimension)
        before, now = list(names), list(features)
        if before == now:
            return cls(w, dimension)
        position = {name: j for j, name in enumerate(now)}
        for whose, all_names in (("the prior", before), ("the rows", now)):
            if len(set(all_names)) < len(all_names):
                twice = next(name for name in all_names if all_names.count(name) > 1)
                raise ConfigError(
                    f"found two features named {twice!r} in {whose}, expected a name for each "
                    "where the features differ; rename one"
                )
        from_prior = np.array([position.get(name, -1) for name in before])
        shared = from_prior >= 0
        if not shared.any():
            raise ConfigError(
                f"found no feature of the prior ({_list(before)}) among those of the rows "
                f"({_list(now)}), expected some of the same names; name another prior"
            )
        aligned = np.zeros(dimension)
        aligned[from_prior[shared]] = w[shared]
        left_out = np.flatnonzero(~shared)
        left_out = left_out[np.argsort(-np.abs(w[left_out]), kind="stable")]
        absent = tuple(before[j] for j in left_out)
        if absent:
            _log.warning(
                "%d of %d features of the prior are not in the rows, and their weights are left "
                "out: %s",
                *(len(absent), len(before), _list(absent)),
            )
        return cls(aligned, int(shared.sum()), absent)

    @classmethod
    def of_trees(cls, recipe: Recipe) -> Prior:
        """The values of the leaves of a recipe's trees, and 0 for its other features.

        They rank rows as the library of the trees does, if rows are not divided by their norms
        (``unit``) or have no features but leaves: then all rows have the norm ``sqrt(T)``.

        Raises
        ------
        ConfigError
            The recipe has no trees, or all values of their leaves are 0.
        """
        trees = recipe.trees
        if trees is None or not trees.forest.values.any():
            raise ConfigError(
                "found a recipe without values of leaves, expected trees whose leaves have values "
                "other than 0; add trees to the recipe, grow them from more rows, or leave out the "
                "prior"
            )
        w = np.zeros(recipe.size)
        # Trees are the last of the joint entries.
        first = recipe.starts[len(recipe.numeric) + len(recipe.pairs)]
        w[first : first + trees.size] = trees.forest.values
        return cls(w, trees.size)

    def centred(self, quadratic: Quadratic, scale: Float | None) -> Centred:
        """The quadratic for a penalty with the centre at the prior; see `solvers.prior.centred`.

        Parameters
        ----------
        quadratic
            The loss, in columns divided by ``scale``.
        scale : (d,), optional
            Divisors of the columns.
        """
        return centred(quadratic, self.w if scale is None else self.w * scale)

    def report(self, scale: float | None) -> dict[str, Any]:
        """The use of the prior, for the summary.

        Parameters
        ----------
        scale
            The factor of the prior in the centre of the penalty; None if the penalty that was
            chosen has its centre at 0.
        """
        return {
            "scale": scale,
            "shared": self.shared,
            "new": self.w.size - self.shared,
            "absent": len(self.absent),
            "largestAbsent": list(self.absent[:_LISTED]),
        }


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_LISTED]))
    return f"{shown}, ..." if len(names) > _LISTED else shown
