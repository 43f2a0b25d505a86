"""The section of scheduled retraining."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field, field_validator, model_validator

from spark_auc.app.config.features import (
    RecipeSection,
    check_columns,
    check_one_recipe,
)
from spark_auc.app.config.sections import Columns, Location, Name, Output, Section, store_location
from spark_auc.app.config.sources import Source
from spark_auc.app.config.training import settings_section
from spark_auc.pipeline.ranker_settings import MBASelectorSettings

PERIOD = "{period}"
_PARAMS = (
    "regParams",
    "elasticNetParams",
    "selectionRule",
    "standardization",
    "tol",
    "maxIter",
    "whenNotConverged",
    "segmentCol",
)


class Challenger(settings_section("MBASelector", MBASelectorSettings, _PARAMS)):  # type: ignore[misc]
    """Penalties to choose from, and the solver: Params of MBASelector."""


class GateSection(Section):
    """When a challenger replaces the champion."""

    strict: bool = Field(False, description="whether it has to be significantly better")
    level: float = Field(0.05, gt=0, lt=0.5, description="one-sided level of the tests")
    oldest: int = Field(
        7, ge=1, description="age of the champion from which on it need not be better"
    )
    least: int = Field(200, ge=2, description="least number of rows of each class")
    withoutChampion: bool = Field(
        False,
        description="whether a challenger replaces, without a comparison, a champion whose columns "
        "the rows lack, if the interval of its own AUC lies above 0.5",
    )
    most: int = Field(28, ge=1, description="most periods whose rows are pooled to reach it")


class DriftSection(Section):
    """Limits of drift; see spark_auc.retraining.drift.Limits."""

    z: float = Field(6.0, gt=0, description="standard errors of a shift or of the prevalence")
    shift: float = Field(0.25, gt=0, description="standard deviations of a column's shift: warns")
    distance: float = Field(0.1, gt=0, description="squared distance of class means: warns")
    prevalence: float = Field(0.2, gt=0, description="relative change of the prevalence: warns")
    psi: float = Field(0.1, gt=0, description="stability index of the scores: warns")
    share: float = Field(
        0.05, gt=0, description="rise of a raw column's missing, extreme or new values: warns"
    )
    stopPSI: float = Field(0.25, gt=0, description="stability index of the scores: stops")


class DeletionSection(Section):
    """Rows of persons to delete from stored moments, by spark-auc retrain --delete."""

    request: Name = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
        description="name of the request; a rerun of it ends what is left, and repeats nothing",
    )
    data: Source = Field(
        description="the rows of one period to delete, as they were stored; {period} in path, "
        "table or where is its date, needed for several periods"
    )
    periods: list[date] = Field(min_length=1, description="periods of the rows")

    @model_validator(mode="after")
    def _of_periods(self) -> DeletionSection:
        if len({*self.periods}) > 1 and not _is_of_period(self.data):
            # All rows would be subtracted from each period.
            raise ValueError(f"{PERIOD} in data.path, data.table or data.where; add it")
        return self

    def rows_of(self, period: str) -> Source:
        """The source of the rows of a period."""
        return of_period(self.data, period)


class Retrain(Section):
    """Periods to a store of moments, and to a champion."""

    data: Source = Field(
        description="rows of one period; {period} in path, table or where is its date"
    )
    columns: Columns = Columns()
    features: RecipeSection | None = Field(
        None, description="raw columns to features, fitted to the first period's rows"
    )
    store: Location = Field(description="directory of the moments of all periods")
    history: Location = Field(description="directory of the decisions of all periods")
    folds: int = Field(5, ge=2, description="folds by which window and penalty are chosen")
    seed: int = Field(0, description="seed of the folds")
    first: date | None = Field(
        None,
        description="first period, stored periods may be later; after fullRefresh, stored periods "
        "from it on are read again; default: the newest",
    )
    period: date | None = Field(None, description="newest period; default: the newest mature one")
    labelDelay: int = Field(0, ge=0, description="days until the labels of a day are complete")
    lookback: int = Field(
        0, ge=0, description="periods before the new one to read again, to store other rows"
    )
    windows: list[int | None] = Field(
        [7, 30, 90], min_length=1, description="numbers of periods to choose from; null: all"
    )
    halfLives: list[float | None] = Field(
        [None],
        min_length=1,
        description="half-lives in periods to choose from; null: none",
    )
    training: Challenger = Challenger()
    prior: Literal["champion"] | None = Field(
        None,
        description="champion: the penalty may have its centre at the weights of the champion, if "
        "they are older than the periods by which it is chosen; not with training.segmentCol; "
        "default: none",
    )
    gate: GateSection = GateSection()
    drift: DriftSection = DriftSection()
    accept: list[date] = Field(
        default_factory=list, description="quarantined periods to store after all"
    )
    exclude: list[date] = Field(
        default_factory=list, description="periods that no window takes, and that are not read"
    )
    keep: int = Field(7, ge=0, description="superseded champions to keep for a rollback")
    pinned: date | None = Field(
        None,
        description="period of the champion that is published while this is set; an earlier one "
        "that is kept is published again",
    )
    dryRun: bool = Field(False, description="decide, and neither publish nor store")
    fullRefresh: Name | None = Field(
        None,
        description="name of a request, such as today's date, to fit the recipe anew under a new "
        "schema id of the store; done once for each name",
    )
    delete: DeletionSection | None = Field(
        None, description="rows that --delete deletes; without the flag it is left out"
    )
    output: Output

    @field_validator("fullRefresh", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("a name of the request, such as today's date, not true or false")
        return value

    @field_validator("windows", "halfLives")
    @classmethod
    def _distinct(cls, values: list[float | None]) -> list[float | None]:
        if len(set(values)) < len(values) or any(v is not None and v <= 0 for v in values):
            raise ValueError("distinct numbers above 0, or null")
        return values

    @model_validator(mode="after")
    def _of_periods(self) -> Retrain:
        check_columns(self.features, self.columns)
        check_one_recipe(self.features)
        if self.prior and self.training.model_dump(exclude_unset=True).get("segmentCol"):
            raise ValueError(
                "prior without training.segmentCol, whose folds hold out rows of the champion's "
                "window; leave out one of them"
            )
        if self.features and (self.features.crosses == "auto" or type(self.features.pairs) is int):
            raise ValueError(
                "features.pairs and features.crosses without a choice, as its rows are held out; "
                "choose them in the job train, and set features.recipe to its model"
            )
        if not _is_of_period(self.data):
            raise ValueError(f"{PERIOD} in data.path, data.table or data.where; add it")
        if both := sorted({*self.accept} & {*self.exclude}):
            raise ValueError(f"{both[0]} in accept or in exclude; leave it out of one of them")
        if self.columns.fold:
            raise ValueError("folds by the key of a row; leave out columns.fold")
        return self

    def store_location(self) -> str:
        """The path of a local store, and the URI of another."""
        return store_location(self.store)

    def rows_of(self, period: str) -> Source:
        """The source of a period's rows."""
        return of_period(self.data, period)


def _is_of_period(source: Source) -> bool:
    return any(PERIOD in part for part in (source.path, source.table, source.where) if part)


def of_period(source: Source, period: str) -> Source:
    """The source with the date of a period in place of ``{period}``."""
    changed = {
        name: value.replace(PERIOD, period)
        for name in ("path", "table", "where")
        if (value := getattr(source, name))
    }
    return source.model_copy(update=changed)
