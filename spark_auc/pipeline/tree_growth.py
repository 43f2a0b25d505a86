"""Growing the trees of a recipe from rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_auc.core.labels import Label
from spark_auc.core.parallel import cpus
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.recipe_fit import RecipePlan
from spark_auc.features.tree_growth import grown
from spark_auc.pipeline.label_sample import LabelSample, label_sample
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.table import Table


@dataclass(frozen=True, eq=False)
class TreeGrowth:
    """Rows in the memory of the driver, from which LightGBM grows trees.

    Parameters
    ----------
    taught
        The rows: a sample, or all.
    types
        Types of the columns of the trees by name.
    settings
        Settings of `spark_auc.features.tree_growth.grown`.
    """

    taught: LabelSample
    types: Mapping[str, str]
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        table: Table,
        plan: RecipePlan,
        settings: Mapping[str, Any],
        label: tuple[str, Label | bool | None],
        weight: str | None = None,
        key: str | None = None,
        rows: int | None = None,
    ) -> TreeGrowth:
        """Gather the rows, by one pass.

        Parameters
        ----------
        table
            The rows.
        plan
            Columns, those of the trees among them; see `with_columns_of_trees`.
        settings
            ``grow`` of `spark_auc.pipeline.tree_settings.tree_settings`.
        label, weight, key, rows
            See `label_sample`.

        Raises
        ------
        ConfigError
            The share is 1, and there are more rows than maxGrowRows.
        DataError
            A value is invalid, or no row is in the sample.
        ResourceError
            The rows do not fit in the memory of the driver.
        """
        assert plan.trees is not None, "a plan with columns of trees"
        others = dict(settings)
        share, most = others.pop("growShare"), others.pop("maxGrowRows")
        sample = KeySample(share, others["seed"]) if share < 1 else None
        # Groups are of equal values of the columns that the recipe will have.
        raw = RawFeatures.of(table, plan.fitted(plan.zero())).raw
        taught = label_sample(table, raw, label, weight, key, sample=sample, most=most, rows=rows)
        return cls(taught, plan.trees.types, others)

    def leaves(self, sample: KeySample | None) -> TreeLeaves:
        """The leaves of trees that grow from the rows of a sample, or from all rows in memory."""
        taught = self.taught
        leaves = grown(
            taught.columns,
            self.types,
            taught.y,
            taught.weight,
            sample=sample,
            groups=taught.groups,
            threads=cpus(),
            **self.settings,
        )
        leaves.warn_of_moments()
        return leaves
