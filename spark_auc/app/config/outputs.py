"""The section of the rows that the job ``score`` writes: a publication, or a table of a lake."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from spark_auc.app.config.sections import Location, Section, Setting, text_of


class ScoreOutput(Section):
    """Where scores go: a directory of their own, or rows of a table."""

    path: Location | None = Field(
        None, description="directory, or place of the Delta table; readers see all rows or none"
    )
    replace: bool = Field(
        False, description="whether to replace the results of an earlier run; with parquet alone"
    )
    format: Literal["parquet", "delta", "iceberg"] = Field(
        "parquet", description="parquet: a directory of this run; delta, iceberg: rows of a table"
    )
    table: str | None = Field(None, description="name of the Iceberg table in its catalog")
    options: dict[str, Setting] = Field(
        default_factory=dict,
        description="options of the object store for delta; properties of the catalog for iceberg, "
        "such as type, uri and warehouse, and its name, catalog",
        repr=False,
    )
    mode: Literal["errorIfExists", "append", "overwrite"] = Field(
        "errorIfExists",
        description="what to do with a table that exists; overwrite with partitionBy replaces the "
        "partitions of the rows alone",
    )
    partitionBy: list[str] = Field(
        default_factory=list, description="partition columns of a new table, or those that it has"
    )
    staging: Location | None = Field(
        None,
        description="directory for the rows before their commit, which tasks and driver reach; "
        "default: one in the Delta table, or in the warehouse of options",
    )
    rawPredictionCol: str | None = Field(
        None, min_length=1, description="column of scores; default: that of the model"
    )
    predictionCol: str | None = Field(
        None, min_length=1, description="column of predicted labels; default: that of the model"
    )
    probabilityCol: str | None = Field(
        None,
        min_length=1,
        description="column of probabilities of a calibrated model; default: that of the model",
    )
    contributionsCol: str = Field(
        "contributions", min_length=1, description="column of the contributions to scores"
    )
    modelVersionCol: str | None = Field(None, description="new column of the model's version")
    runIdCol: str | None = Field(None, description="new column of the run's id")

    @property
    def place(self) -> str:
        """The path or the name of the table."""
        return self.path or self.table or ""

    def settings(self) -> dict[str, str]:
        """The options as text."""
        return {key: text_of(value) for key, value in self.options.items()}

    @property
    def staged(self) -> str | None:
        """The directory of rows before their commit."""
        warehouse = self.settings().get("warehouse")
        inside = self.path if self.format == "delta" else warehouse
        return self.staging or (f"{inside.rstrip('/')}/_spark_auc" if inside else None)

    @model_validator(mode="after")
    def _of_the_format(self) -> ScoreOutput:
        of_table = {"table", "options", "mode", "staging"}
        unused = {
            "parquet": of_table,
            "delta": {"table", "replace"},
            "iceberg": {"path", "replace"},
        }
        given = sorted(unused[self.format] & self.model_fields_set)
        if self.format == "parquet" and "mode" in given:
            raise ValueError(
                "no mode with parquet, as files have no commit: append and overwrite with format "
                "delta or iceberg, or replace: true"
            )
        needed = "table" if self.format == "iceberg" else "path"
        if given:
            raise ValueError(f"no {', '.join(given)} with format {self.format}; leave it out")
        if getattr(self, needed) is None:
            raise ValueError(f"{needed} with format {self.format}; add it")
        if self.staged is None and self.format == "iceberg":
            raise ValueError("staging, or options.warehouse, with format iceberg; add one")
        names = [name for name in (self.modelVersionCol, self.runIdCol) if name]
        if len({*names}) < len(names):
            raise ValueError("different names in modelVersionCol and runIdCol")
        return self
