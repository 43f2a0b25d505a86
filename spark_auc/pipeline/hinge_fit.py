"""Fits RankSVM: the all-pairs squared hinge by truncated Newton steps."""

from __future__ import annotations

from typing import Annotated, Any

from spark_auc.pipeline.ranker_fit import FoldsFit
from spark_auc.pipeline.ranker_settings import ConvergenceSettings, FoldSettings, RankerSettings
from spark_auc.pipeline.settings import Range, Setting, WeightSettings
from spark_auc.solvers.candidates import Candidate
from spark_auc.tables.features import Features
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Table
from spark_auc.training.ranksvm import train_hinge
from spark_auc.training.settings import HingeSettings


class RankSVMSettings(
    RankerSettings, WeightSettings, ConvergenceSettings, FoldSettings, total=False
):
    """Settings of `RankSVMClassifier`."""

    regParam: Annotated[
        float | None,
        Setting(
            "Ridge factor in MBAClassifier's unit: the papers' C is 1 / (2 regParam n_+ n_-). By "
            "default the one that MBAClassifier chooses by the AUC of held-out folds.",
            None,
            Range(gt=0),
        ),
    ]
    keyCol: Annotated[
        str | None,
        Setting(
            "Column whose equal values keep rows together in a fold. By default rows with equal "
            "features are kept together."
        ),
    ]
    seed: Annotated[int, Setting("Seed of the folds.", 0)]
    tol: Annotated[
        float,
        Setting(
            "Largest element of the gradient, relative to that at 0, each in the unit sqrt(H_jj) "
            "with H the Hessian at 0.",
            1e-4,
            Range(gt=0),
        ),
    ]
    maxIter: Annotated[
        int,
        Setting(
            "Most Newton steps; above 2,048 features most conjugate-gradient steps in all.",
            500,
            Range(ge=1),
        ),
    ]


class HingeFit(FoldsFit):
    """Trains the squared hinge; its settings are `RankSVMSettings`."""

    @property
    def selects(self) -> bool:
        """See `RankerFit.selects`."""
        values: RankSVMSettings = self.values()
        return values["regParam"] is None

    def check(self) -> None:
        """See `HasSettings.check`."""
        super().check()
        if not self.uses_key:
            self.refuse("a single penalty", "keyCol", "seed")

    def fitted(
        self, table: Table, features: Features | None = None, penalty: Candidate | None = None
    ) -> Any:
        """See `FoldsFit.fitted`."""
        self.check()
        values: RankSVMSettings = self.values()
        folds, column = self.folds(table)
        columns = self.resolved(table, features, values["keyCol"], column)
        settings = HingeSettings(
            values["regParam"] if penalty is None else penalty.regParam,
            values["standardization"],
            values["tol"],
            values["maxIter"],
            values["whenNotConverged"],
            self.held_out(folds, columns),
            values["selectionRule"] == "oneStandardError",
        )
        result = train_hinge(TableRows.of(table, columns), settings)
        assert result.penalty is not None
        return self.made(result, columns).with_values(regParam=result.penalty.regParam)
