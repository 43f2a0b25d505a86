"""Trees and the weights of their leaves from the same rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_auc.core.sampling.folds import Folds
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError
from spark_auc.pipeline.pair_moments_fit import PairMomentsFit
from spark_auc.pipeline.ranker_fit import RankerFit
from spark_auc.pipeline.recipe_estimator import RecipeFit, RecipeModel
from spark_auc.pipeline.tree_settings import grows_from_all, tree_settings
from spark_auc.solvers.candidates import Candidate
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Table
from spark_auc.training.prior import Prior
from spark_auc.training.same_rows import GrownRows, train_on_same_rows

# The other rows choose the penalty.
_SHARE = 0.8
# Settings of the ranker that contradict this training.
_CONTRARY = (
    *("estimator", "prior", "segmentCol", "keepMoments", "maxFPR", "covariance"),
    *("numFolds", "foldCol", "selectionRule", "seed", "smoothness"),
)


@dataclass(frozen=True, eq=False)
class SameRows:
    """A recipe whose growShare is 1, and the ranker that is trained on the rows of its trees.

    Rows are not divided by their length, and columns are not standardised.

    Parameters
    ----------
    recipe
        The recipe.
    ranker
        The ranker.
    """

    recipe: RecipeFit
    ranker: PairMomentsFit

    @classmethod
    def of(
        cls,
        recipe: RecipeFit | RecipeModel | None,
        embeddings: Sequence[object],
        ranker: RankerFit,
    ) -> SameRows | None:
        """The stages of a pipeline; None unless all rows grow the trees of its recipe.

        Raises
        ------
        ConfigError
            All rows do, but the other stages or settings cannot serve.
        """
        if not isinstance(recipe, RecipeFit) or not grows_from_all(recipe.values()["trees"]):
            return None
        if embeddings or not isinstance(ranker, PairMomentsFit):
            raise ConfigError(
                f"found growShare 1 with {len(embeddings)} embeddings and a "
                f"{ranker.PUBLIC}, expected none and MBAClassifier or MBASelector, which "
                "train on the rows that grow the trees; change the stages, or set a lower growShare"
            )
        made, values = recipe.values(), ranker.values()
        found = [n for n in _CONTRARY if values[n] != ranker.SETTINGS[n].setting.default]
        for stage, name in ((ranker, "standardization"), (recipe, "unit")):
            found += [name] * (stage.isSet(name) and stage.values()[name])
        found += ["crosses 'auto'"] * (made["crosses"] == "auto")
        found += [f"pairs {made['pairs']}"] * isinstance(made["pairs"], int | str)
        if found:
            raise ConfigError(
                f"found {', '.join(found)} with growShare 1, expected none of them: the trees are "
                "the prior of the weights of their leaves, and one sample of the rows chooses the "
                "penalty; leave them out, or set a lower growShare"
            )
        return cls(recipe.with_values(unit=False), ranker.with_values(standardization=False))

    def fitted(self, table: Table, penalty: Candidate | None = None) -> tuple[RecipeModel, Any]:
        """Grow the trees from all rows of a table, and train the ranker on them.

        The driver gathers the rows once; see `train_on_same_rows`.

        Parameters
        ----------
        table
            The rows.
        penalty
            The penalty. Default: that of the settings, or the one that rows choose.

        Raises
        ------
        ConfigError
            There are more rows than maxGrowRows, or a column cannot serve.
        DataError
            A value is invalid, or a part of the rows is of one class.
        MissingPackageError
            LightGBM is not installed.
        ResourceError
            The rows, or the moments of their features, do not fit in memory.
        ConvergenceError
            The solver did not reach its tolerance.
        """
        values, ranker = self.ranker.values(), self.ranker
        label = values["labelCol"], values["positiveLabel"]
        growing = self.recipe.growing(table, label, values["weightCol"], values["keyCol"])
        made = dict[KeySample | None, tuple[RecipeModel, TrainingColumns]]()

        def grown(sample: KeySample | None) -> GrownRows:
            model = growing(sample)
            # Groups are those of which the sample is drawn.
            features = replace(model.input_features(table), by_values=True)
            columns = ranker.resolved(table, features, values["keyCol"])
            made[sample] = model, columns
            return GrownRows(TableRows.of(table, columns), Prior.of_trees(model.recipe))

        seed = tree_settings(self.recipe.values()["trees"])["grow"]["seed"]
        settings = ranker.training_settings(Folds(values["numFolds"]))
        if penalty is not None:
            settings = settings.of(penalty)
        result = train_on_same_rows(grown, KeySample(_SHARE, seed), settings)
        model, columns = made[None]
        return model, ranker.made(result, columns)
