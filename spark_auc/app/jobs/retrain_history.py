"""The decisions of a retraining: a JSON file and a page of each period, a log and a page of all."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import date
from typing import Any

from spark_auc.app.report.history import history_page, period_page
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import LabelCounts
from spark_auc.errors import ConflictError, DataError, ModelFormatError
from spark_auc.publication.directory import Directory

_LOG, _PAGE, _SCORES = "history.jsonl", "history.html", ".scores"
# Bins of the scores of a period; a bin takes 56 bytes.
_BINS = 1024


class History:
    """What was decided about each period.

    A record is replaced as a whole, so that a rerun leaves one record of a period.

    Parameters
    ----------
    location
        A path or a URI.

    Raises
    ------
    ModelFormatError
        A record is damaged.
    """

    def __init__(self, location: str) -> None:
        self._directory = Directory.of(location)
        self.records: dict[str, dict[str, Any]] = {}
        for name in sorted(self._directory.names()):
            period, _, ending = name.rpartition(".")
            if ending == "json" and _is_date(period):
                self.records[period] = self._read(name)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            record = json.loads(self._directory.read(name))
            if not isinstance(record, dict) or record.get("period") != name.removesuffix(".json"):
                raise ValueError("it is no record of this period")
        except ValueError as error:
            raise ModelFormatError(
                f"found a damaged record {name} in {self._directory.uri} ({error}), expected the "
                "JSON that a retraining wrote; restore it, or delete it: the newest period is then "
                "decided again"
            ) from None
        return record

    def write(self, record: dict[str, Any]) -> None:
        """Write the record of a period and its page, and the log and the page of all periods.

        Rollbacks after the period remain, also those that another job wrote.
        """
        name = f"{record['period']}.json"
        stored = self._read(name) if name in self._directory.names() else {}
        rollbacks = list[dict[str, Any]]()
        for rollback in (*stored.get("rollbacks", ()), *record.get("rollbacks", ())):
            if rollback not in rollbacks:
                rollbacks.append(rollback)
        if rollbacks:
            record = record | {"rollbacks": rollbacks}
        text = json.dumps(record, indent=2, allow_nan=False) + "\n"
        self.records[record["period"]] = json.loads(text)
        self.records = dict(sorted(self.records.items()))
        # A run that ends here writes the record and this page again.
        page = period_page(self.records[record["period"]])
        self._directory.replace(f"{record['period']}.html", page.encode())
        self._directory.replace(name, text.encode())
        self._write_all()

    def write_scores(self, period: str, scores: ScoreHistogram) -> None:
        """Store the champion's scores on a period, before its record."""
        content = scores.coarsened(max_bins=_BINS).to_bytes()
        self._directory.replace(f"{period}{_SCORES}", content)

    def scores(self, period: str, champion: str) -> ScoreHistogram | None:
        """Scores on a period by the champion of another; None if that was not the champion then."""
        if self.records[period].get("scoredBy") != champion:
            return None
        try:
            return ScoreHistogram.from_bytes(self._directory.read(f"{period}{_SCORES}"))
        except FileNotFoundError:
            return None

    def complete(self) -> None:
        """Write the log and the page if a run ended after it wrote a record."""
        names = self._directory.names()
        if self.records and (_LOG not in names or self._directory.read(_LOG) != self._log()):
            self._write_all()

    def _log(self) -> bytes:
        lines = (json.dumps(_line(r), allow_nan=False) + "\n" for r in self.records.values())
        return "".join(lines).encode()

    def _write_all(self) -> None:
        # The log comes last: `complete` compares it.
        self._directory.replace(_PAGE, history_page(list(self.records.values())).encode())
        self._directory.replace(_LOG, self._log())

    def check_unchanged(self, period: str) -> None:
        """`ConflictError` if another job wrote the record of a period since this one read it."""
        name = f"{period}.json"
        stored = self._read(name) if name in self._directory.names() else None
        if stored != self.records.get(period):
            raise ConflictError(
                f"found a record of {period} in {self._directory.uri} that another job wrote "
                "during this job, expected one job at a time; the other record remains: run this "
                "job again"
            )

    def roll_back(self, rollback: dict[str, Any], is_dry: bool = False) -> None:
        """Write a rollback to the record of the period after which it happened, once."""
        record = self.records.get(rollback["after"])
        if record is None or rollback in record.get("rollbacks", ()):
            return
        self.check_unchanged(record["period"])
        changed = record | {"rollbacks": [*record.get("rollbacks", ()), rollback]}
        self.records[record["period"]] = changed
        if not is_dry:
            self.write(changed)

    def exclude(self, period: str, is_dry: bool = False) -> None:
        """Leave a period out of all windows from now on, whether it is stored or not."""
        reason = "excluded by retrain.exclude"
        record = self.records.get(period) or {
            "period": period,
            "outcome": "excluded",
            "reason": reason,
            "completed": True,
        }
        self.records[period] = record | {"excluded": True}
        if not is_dry:
            self.write(self.records[period])

    def include(self, period: str, is_dry: bool = False) -> None:
        """Let windows take a period again."""
        if self.records.get(period, {}).get("excluded"):
            self.records[period] = self.records[period] | {"excluded": False}
            if not is_dry:
                self.write(self.records[period])

    def excluded(self) -> set[str]:
        """Periods that no window and no gate takes: excluded and quarantined ones.

        A run that ended while it stored an accepted period leaves a stored, quarantined one.
        """
        return {
            p
            for p, record in self.records.items()
            if record.get("excluded") or record["outcome"] == "quarantined"
        }

    def decided(self) -> list[str]:
        """Periods with a record, without those that were excluded before a run reached them."""
        return [p for p in self.records if self.outcome(p) != "excluded"]

    def outcome(self, period: str) -> str | None:
        """The outcome of a period; None without a record."""
        outcome = self.records.get(period, {}).get("outcome")
        return None if outcome is None else str(outcome)

    def newest(self, schema_ids: Collection[str]) -> dict[str, Any] | None:
        """A record of the schema that was begun last, of some schema ids; None without records.

        Of several records, that of the newest period. Later periods may have earlier schemas: a
        full refresh can begin with periods before them.
        """
        known = [r for r in self.records.values() if r.get("schemaId") in schema_ids]
        return max(known, key=lambda r: (_refreshes(r), r["period"]), default=None)

    def refreshes(self, schema_ids: Collection[str]) -> int:
        """Number of full refreshes until the schema that was begun last."""
        newest = self.newest(schema_ids)
        return 0 if newest is None else _refreshes(newest)

    def check_labels(self, schema_id: str, labels: LabelCounts) -> None:
        """`DataError` for labels that no earlier period of a schema id had."""
        known = [
            record["labels"]
            for record in self.records.values()
            if record.get("schemaId") == schema_id and "labels" in record
        ]
        if known and (other := sorted(labels.rows.keys() - {*known[0]}, key=str)):
            raise DataError(
                f"found the label {other[0]!r} in {labels.rows[other[0]]} rows, expected "
                f"{known[0][0]!r} (positive) or {known[0][1]!r} as in the periods before; correct "
                "the rows, or set retrain.fullRefresh to a new name"
            )

    def warned(self) -> set[str]:
        """Periods of which drift warned."""
        return {
            p
            for p, record in self.records.items()
            if (found := record.get("drift")) and (found["warnings"] or found["stops"])
        }


def _refreshes(record: dict[str, Any]) -> int:
    return int(record["settings"].get("refreshes", 0))


def _line(record: dict[str, Any]) -> dict[str, Any]:
    """A record for the log: without counts of raw columns and penalties to choose from."""
    line = {name: value for name, value in record.items() if name != "columns"}
    if challenger := line.get("challenger"):
        line["challenger"] = {k: v for k, v in challenger.items() if k != "selections"}
    return line


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
