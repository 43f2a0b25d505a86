"""Fitting recipes: raw columns of a table to sparse rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Protocol, Self, cast

from spark_auc.core.labels import Label
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError, ResourceError
from spark_auc.features.auto_rules import AUTO, Decision
from spark_auc.features.calendar_days import calendar_days_of
from spark_auc.features.crosses import Crosses
from spark_auc.features.derived import Derived
from spark_auc.features.differences import differences_of
from spark_auc.features.drift import Drift
from spark_auc.features.pair_choice import named_pairs
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_auto import AutoPlan
from spark_auc.features.recipe_fit import KINDS, RecipePlan
from spark_auc.pipeline.has_settings import HasSettings
from spark_auc.pipeline.recipe_fit import MOST_KNOTS, Fit, Summary, chosen, summarised
from spark_auc.pipeline.recipe_interactions import with_interactions
from spark_auc.pipeline.recipe_schema import types_of
from spark_auc.pipeline.recipe_settings import RecipeSettings, are_pairs
from spark_auc.pipeline.recipe_trees import read_trees, with_columns_of_trees, with_trees
from spark_auc.pipeline.settings import LabelSettings
from spark_auc.pipeline.tree_growth import TreeGrowth
from spark_auc.pipeline.tree_settings import grows_from_all, tree_settings
from spark_auc.tables.names import folding
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.table import Table, fields_by_name, fields_named, own_names
from spark_auc.tables.text_types import readings_of
from spark_auc.trees.forest import Forest

_log = logging.getLogger(__name__)

# Params that name columns, beside those of kinds.
_NAMING = ("leaveOut", "pairs", "crosses")


class LabelledRecipeSettings(RecipeSettings, LabelSettings, total=False):
    """Settings of a recipe and of the label that chooses its columns."""


class RecipeModel(Protocol):
    """A fitted recipe, as the pipeline sees it."""

    @property
    def recipe(self) -> Recipe:
        """The map of raw columns."""

    @property
    def drift(self) -> Drift | None:
        """Counts of the rows of its fit; None if they are unknown."""

    def replaced(self, recipe: Recipe, drift: Drift | None) -> Self:
        """A model of this recipe and these counts."""

    def input_features(self, table: Table) -> RawFeatures:
        """The features of a table's rows; errors as of `RawFeatures.of`."""


class RecipeFit(HasSettings):
    """Fits a recipe to the rows of a table; its settings extend `LabelledRecipeSettings`."""

    def recipe_model(
        self, recipe: Recipe, drift: Drift | None, decisions: tuple[Decision, ...]
    ) -> RecipeModel:
        """The model of a recipe, of counts of the rows of its fit, and of what it decided."""
        raise NotImplementedError

    def trees_at(self, path: AnyPath, table: Table) -> Forest:
        """The trees of a saved model; see `read_trees`."""
        return read_trees(path)

    def fitted(
        self,
        table: Table,
        label: tuple[str, Label | bool | None] | None = None,
        others: Collection[str] = (),
        weight: str | None = None,
        key: str | None = None,
    ) -> RecipeModel:
        """Fit the recipe to the rows of a table.

        Parameters
        ----------
        table
            The rows.
        label
            Label column and positive label. Default: those of the settings.
        others
            Further columns that ``auto`` leaves out, such as folds.
        weight, key
            Columns of the weights and of the groups of the rows that grow trees, which ``auto``
            leaves out too. Default: weight 1; rows of equal values are a group.

        Raises
        ------
        ConfigError
            pairs is "auto", or as by ``fit``.
        """
        if self.values()["pairs"] == "auto":
            raise ConfigError(
                "found pairs 'auto' of a recipe without a ranker, expected a number or names; set "
                "them, or fit a RankerPipeline whose ranker chooses its penalty"
            )
        return self.fitted_to(table, label, others, weight, key)

    def fitted_to(
        self,
        table: Table,
        label: tuple[str, Label | bool | None] | None = None,
        others: Collection[str] = (),
        weight: str | None = None,
        key: str | None = None,
        *,
        is_smooth: bool = False,
        most_pairs: int | None = None,
    ) -> RecipeModel:
        """The recipe of the rows of a table, for a ranker.

        Parameters
        ----------
        table, label, others, weight, key
            See `fitted`.
        is_smooth
            Whether the roughness of curves has a penalty.
        most_pairs
            Most pairs for ``pairs: auto``. Default: none.
        """
        self.check()
        if (own := self._in_names_of(table)) is not self:
            columns = table, label, others, weight, key
            return own.fitted_to(*columns, is_smooth=is_smooth, most_pairs=most_pairs)
        values: LabelledRecipeSettings = self.values()
        if grows_from_all(values["trees"]):
            raise ConfigError(
                "found growShare 1 for a recipe that is fitted before its ranker, expected less, "
                "as the other rows are for the weights; set a lower growShare, or fit a "
                "RankerPipeline with MBAClassifier"
            )
        label = label or (values["labelCol"], values["positiveLabel"])
        others = [*others, *(name for name in (weight, key) if name)]
        summary = self._summary(table, label, others, is_smooth)
        if values["trees"]:
            trees = tree_settings(values["trees"]), label, weight, key, summary.rows
            summary = summary._replace(
                plan=with_trees(table, summary.plan, *trees, read=self.trees_at)
            )
        recipe, drift = self._with_interactions(table, summary, most_pairs, label, weight, key)
        _log.info("recipe: %s", _described(summary.plan, recipe))
        return self.recipe_model(recipe, drift, summary.decisions)

    def growing(
        self,
        table: Table,
        label: tuple[str, Label | bool | None],
        weight: str | None = None,
        key: str | None = None,
    ) -> Callable[[KeySample | None], RecipeModel]:
        """Gather all rows, to grow trees from them and from a sample of them.

        Parameters are those of `fitted`; growShare is 1.

        Returns
        -------
        made
            Makes the recipe whose trees grow from a sample of the rows, or from all (None). Its
            other features are those of all rows.
        """
        if (own := self._in_names_of(table)) is not self:
            return own.growing(table, label, weight, key)
        settings = tree_settings(self.values()["trees"])["grow"]
        summary = self._summary(table, label, [name for name in (weight, key) if name])
        row = label, weight, key, summary.rows
        growth = TreeGrowth.of(table, summary.plan, settings, *row)

        def made(sample: KeySample | None) -> RecipeModel:
            plan = replace(summary.plan, trees=growth.leaves(sample))
            recipe, drift = summary._replace(plan=plan).fit()
            recipe = self._with_named_pairs(recipe, summary)
            return self.recipe_model(recipe, drift, summary.decisions)

        return made

    def _summary(
        self,
        table: Table,
        label: tuple[str, Label | bool | None],
        others: Collection[str],
        is_smooth: bool = False,
    ) -> Summary:
        """The explicit columns of the rows of a table, and their summary."""
        values: LabelledRecipeSettings = self.values()
        kinds = self._kinds()
        settings: dict[str, Any] = {
            "knots": MOST_KNOTS if values["numKnots"] == "auto" else values["numKnots"],
            "dimension": values["dimension"],
            "crosses": self._crosses(),
            "missing": values["missing"],
            "unit": values["unit"],
            "zone": table.zone,
            "readings": readings_of(table),
        }
        unused = values["leaveOut"] or ()
        lookup = fields_by_name(table)
        crossed = [name for pair in self._named_pairs for name in pair]
        fields_named(table, [*kinds, *crossed])
        names = table.schema.names if values["auto"] or self._leaves_alone else list(kinds)
        types = types_of(table, names, kinds, {label[0], *others, *unused})
        times = [name for name, type_ in types.items() if type_ == "time"] if values["auto"] else []
        free, taken = [name for name in times if name not in kinds], table.schema.names
        derived = *differences_of(times, taken), *calendar_days_of(free, taken)
        made: dict[str, Derived] = {each.name: each for each in derived}
        one_case = folding(exact=table.exact_names)
        without, names_made = {one_case(name) for name in unused}, {one_case(name) for name in made}
        # Of columns that are left out, there may be several of one name.
        known = [name for name in unused if lookup(name) or one_case(name) in names_made]
        fields_named(table, [name for name in unused if name not in known])
        used = [name for name in made if one_case(name) not in without]
        types |= dict.fromkeys(used, "float")
        settings["derived"] = tuple(made[name] for name in used)
        plan = AutoPlan.of_schema(types, kinds, **settings)
        if any(column.kind == AUTO for column in plan.columns):
            summary = chosen(table, plan, *label, is_smooth=is_smooth)
        else:
            summary = summarised(table, plan.widest)
        if values["numKnots"] == "auto":
            summary = summary.with_knots(is_smooth)
        if not values["trees"]:
            return summary
        settings = tree_settings(values["trees"])
        return with_columns_of_trees(table, summary, settings, alone=self._leaves_alone)

    def _with_interactions(
        self,
        table: Table,
        summary: Summary,
        most_pairs: int | None,
        label: tuple[str, Label | bool | None],
        weight: str | None,
        key: str | None,
    ) -> Fit:
        """The recipe with its pairs and crosses, and counts of its rows."""
        values: LabelledRecipeSettings = self.values()
        (recipe, drift), pairs = summary.fit(), values["pairs"]
        recipe = self._with_named_pairs(recipe, summary)
        try:
            made = with_interactions(
                *(table, recipe, label, weight, key),
                pairs=most_pairs if pairs == "auto" else pairs if isinstance(pairs, int) else None,
                bits=values["crossBits"] if values["crosses"] == "auto" else None,
                rows=summary.rows,
            )
        except ResourceError as error:
            if isinstance(pairs, int):
                raise
            _log.warning("no pairs and crosses are chosen: %s", error)
            return recipe, drift
        return made, drift

    def _with_named_pairs(self, recipe: Recipe, summary: Summary) -> Recipe:
        """The recipe with the pairs of columns that the Params name."""
        if not (pairs := self._named_pairs):
            return recipe
        return replace(recipe, pairs=named_pairs(recipe, summary.state, pairs))

    @property
    def _leaves_alone(self) -> bool:
        """Whether leaves of trees are the only features."""
        values: LabelledRecipeSettings = self.values()
        return values["trees"] is not None and not values["auto"] and not self._kinds()

    def check(self) -> None:
        """See `HasSettings.check`."""
        if (trees := self.values()["trees"]) is not None:
            tree_settings(trees)
        if not are_pairs(self._named_pairs):
            raise ConfigError(
                f"found pairs {self._named_pairs}, expected different pairs of two columns; "
                "correct the names"
            )

    @property
    def _named_pairs(self) -> list[list[str]]:
        """Pairs of numeric columns that the Params name."""
        pairs = self.values()["pairs"]
        return pairs if isinstance(pairs, list) else []

    def _in_names_of(self, table: Table) -> Self:
        """The stage with the names of columns as the rows have them; itself if they are equal."""
        named = ((name, self.values()[name]) for name in (*KINDS, *_NAMING))
        lists = {name: value for name, value in named if isinstance(value, list)}
        own = {name: own_names(table, value) for name, value in lists.items()}
        changed = {name: value for name, value in own.items() if value != lists[name]}
        return self.with_values(**changed) if changed else self

    def _kinds(self) -> dict[str, list[str]]:
        """The kinds of the columns that the Params name."""
        kinds = dict[str, list[str]]()
        for kind in KINDS:
            for name in self.values()[kind] or ():
                kinds.setdefault(name, []).append(kind)
        return kinds

    def _crosses(self) -> Crosses | None:
        values: LabelledRecipeSettings = self.values()
        crosses = values["crosses"]
        if crosses in (None, "auto"):
            return None
        pairs = None if isinstance(crosses, str) else tuple(map(tuple, crosses))
        return Crosses(cast(Any, pairs), values["crossBits"])


def _described(plan: RecipePlan, recipe: Recipe) -> str:
    kinds = {kind: [c.name for c in plan.columns if c.kind == kind] for kind in KINDS}
    pairs = [[column.name for column in pair.columns] for pair in recipe.pairs]
    found = {name: names for name, names in (kinds | {"pairs": pairs}).items() if names}
    return json.dumps(found | {"features": recipe.size})
