"""What the estimators on pair moments share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from spark_auc.core.labels import Label
from spark_auc.core.moments.curves import Curves
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError
from spark_auc.pipeline.has_settings import HasSettings
from spark_auc.pipeline.ranker_fit import FoldsFit
from spark_auc.pipeline.ranker_settings import PairMomentsSettings
from spark_auc.pipeline.segment_rankers import segmented
from spark_auc.solvers.candidates import Candidate
from spark_auc.tables.features import Features
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Table
from spark_auc.training.approximation import Approximation
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.train import train

# Factors of the roughness of curves to choose from.
SMOOTHNESS = (0.1, 1.0, 10.0, 100.0)
_WITHOUT_SMOOTHNESS = ("segmentCol", "prior", "estimator", "covariance")


class PairMomentsFit(FoldsFit):
    """Trains on pair moments; its settings extend `PairMomentsSettings`."""

    def penalties(self) -> tuple[tuple[float, ...] | None, tuple[float, ...]]:
        """Candidates for regParam (None: a grid computed from the data) and elasticNetParam."""
        values = self.values()
        if "regParams" in values:
            regs, mixes = values["regParams"], values["elasticNetParams"]
            return None if regs is None else tuple(regs), tuple(mixes)
        reg = values["regParam"]
        return None if reg is None else (reg,), (values["elasticNetParam"],)

    @property
    def selects(self) -> bool:
        """See `RankerFit.selects`."""
        regs, mixes = self.penalties()
        several = len(self.factors) > 1
        return several or regs is None or len(regs) * len(mixes) != 1

    @property
    def smooth(self) -> Self:
        """The estimator that chooses a smoothness, where no other setting contradicts it."""
        if self.factors or not self.selects or self._contrary:
            return self
        return self.with_values(smoothness="auto")

    @property
    def _contrary(self) -> list[str]:
        """Names of settings that contradict a smoothness."""
        values = self.values()
        defaults = {name: self.SETTINGS[name].setting.default for name in _WITHOUT_SMOOTHNESS}
        found = [name for name, default in defaults.items() if values[name] != default]
        return found + ["elasticNetParam"] * any(self.penalties()[1])

    @property
    def factors(self) -> tuple[float, ...]:
        """See `RankerFit.factors`."""
        smoothness = self.values()["smoothness"]
        if smoothness == "auto":
            return SMOOTHNESS
        return () if smoothness is None else (smoothness,)

    @property
    def has_folds(self) -> bool:
        """Folds choose a penalty, the shrinkage of segments, or both."""
        return self.selects or self.values()["segmentCol"] is not None

    @property
    def uses_key(self) -> bool:
        """See `FoldsFit.uses_key`; draws and sketches take keys too."""
        drawn = self.values()["estimator"] != "exact"
        return self.has_folds or drawn or self.approximation.kind == "lowRank"

    def check(self) -> None:
        """See `HasSettings.check`."""
        values: PairMomentsSettings = self.values()
        drawn = values["estimator"] != "exact"
        if self.has_prior and drawn:
            raise ConfigError(
                f"found prior with estimator {values['estimator']!r}, expected 'exact'; leave out "
                "one of them"
            )
        if not drawn:
            self.refuse("estimator 'exact'", "numPairs", "batchSize", "pairTol")
        else:
            self.refuse(f"estimator {values['estimator']!r}", "segmentCol", "maxFPR")
            if values["numPairs"] != "auto":
                self.refuse(f"numPairs {values['numPairs']}", "pairTol")
        if self.factors and (contrary := self._contrary):
            raise ConfigError(
                f"found smoothness with {', '.join(contrary)}, expected all pairs, exact "
                "covariances and a ridge around 0; leave out one of them"
            )
        if values["segmentCol"] is not None:
            self.refuse(f"segmentCol {values['segmentCol']!r}", "maxFPR")
        kind = self.approximation.kind
        if kind != "full":
            without = ("estimator", "segmentCol", "keepMoments", "maxFPR", "prior")
            self.refuse(f"covariance {kind!r}", *without)
        check_covariance(self)
        super().check()
        if not self.uses_key:
            self.refuse("a single penalty and estimator 'exact'", "keyCol", "seed")

    @property
    def approximation(self) -> Approximation:
        """How covariances are approximated, if they are."""
        values = self.values()
        return Approximation(
            values["covariance"],
            values["headSize"],
            values["covarianceRank"],
            values["seed"],
            keyed=values["keyCol"] is not None,
        )

    def approximation_for(self, features: Features) -> Approximation:
        """The approximation, with the head that the recipe of the features names, if any.

        Raises
        ------
        ConfigError
            headSize is set, and the head has more columns.
        """
        approximation = self.approximation
        head = features.recipe.head if isinstance(features, RawFeatures) else None
        if head is None:
            return approximation
        if self.isSet("headSize") and len(head) > approximation.head_size:
            raise ConfigError(
                f"found headSize {approximation.head_size} with a recipe that names a head of "
                f"{len(head)} columns, expected as many at least; leave out headSize, or fit the "
                "recipe again to choose a head"
            )
        return approximation.of_head(head)

    def settings_on_moments(self) -> TrainingSettings:
        """The settings of a training run on moments: penalties, their choice, and the solver's."""
        values: PairMomentsSettings = self.values()
        regs, mixes = self.penalties()
        return TrainingSettings(
            reg_params=regs,
            elastic_net_params=mixes,
            one_standard_error=values["selectionRule"] == "oneStandardError",
            standardize=values["standardization"],
            tol=values["tol"],
            max_iter=values["maxIter"],
            on_failure=values["whenNotConverged"],
        )

    def training_settings(self, folds: Folds) -> TrainingSettings:
        """The settings of a training run with these folds, without a prior."""
        values: PairMomentsSettings = self.values()
        pairs, seed = values["numPairs"], values["seed"]
        return replace(
            self.settings_on_moments(),
            sampling=Sampling(values["estimator"], 0 if pairs == "auto" else pairs, seed),
            pair_tolerance=values["pairTol"],
            batch_size=values["batchSize"],
            folds=folds,
            keep_moments=values["keepMoments"],
            max_fpr=self.values()["maxFPR"],
        )

    def fitted(
        self, table: Table, features: Features | None = None, penalty: Candidate | None = None
    ) -> Any:
        """See `FoldsFit.fitted`."""
        self.check()
        values: PairMomentsSettings = self.values()
        folds, column = self.folds(table)
        settings = self.training_settings(folds)
        drawn = settings.sampling.estimator != "exact" or self.approximation.kind == "lowRank"
        columns = self.resolved(table, features, values["keyCol"], column, placed=drawn)
        folds, prior = self.held_out(folds, columns), self.prior_for(columns.features)
        approximation = self.approximation_for(columns.features)
        settings = replace(settings, folds=folds, prior=prior, approximation=approximation)
        if self.factors:
            curves = curves_of(columns.features)
            settings = replace(
                settings, curves=curves, smoothness=self.factors if curves.spans else ()
            )
        if penalty is not None:
            settings = settings.of(penalty)
        result = train(TableRows.of(table, columns), settings)
        model, name = self.made(result, columns), values["segmentCol"]
        return segmented(model, table, columns, name, result, settings) if name else model

    def model_from(
        self,
        result: TrainingResult,
        positive: Label | None,
        names: tuple[str, ...] | None,
        labels: Sequence[str] | None,
    ) -> Any:
        """See `RankerFit.model_from`; the model has the penalty of its weights."""
        assert result.penalty is not None
        regParam, elasticNetParam = result.penalty.regParam, result.penalty.elasticNetParam
        model = super().model_from(result, positive, names, labels)
        return model.with_values(regParam=regParam, elasticNetParam=elasticNetParam)


def curves_of(features: Features) -> Curves:
    """The curves of features of a recipe; `ConfigError` for other features."""
    if not isinstance(features, RawFeatures):
        raise ConfigError(
            "found smoothness of features that are not of a recipe, expected those of a recipe, "
            "whose splines are curves; leave it out"
        )
    return features.recipe.curves


def check_covariance(estimator: HasSettings) -> None:
    """`ConfigError` if a Param of another approximation of the covariances is set."""
    kind, sizes = (
        estimator.values()["covariance"],
        {"headSize": "head", "covarianceRank": "lowRank"},
    )
    others = [name for name, of_kind in sizes.items() if of_kind != kind]
    estimator.refuse(f"covariance {kind!r}", *others)
