"""Score rows by HTTP with FastAPI, from the ranker that a job published.

    pip install fastapi uvicorn
    python examples/http_server.py output/demo/model --port 8000
    curl -H 'Content-Type: application/json' http://127.0.0.1:8000/score \
      -d '{"position": 2, "age": 35}'

``POST /score`` takes one row or a list of rows: the values of the ranker's columns by name, null
for a missing value, times as ISO text. Each has a score, a label, and a probability if the ranker
has a calibration. Rows that cannot be scored are answered with status 422 and the reason. The
answer names the version. The server loads a new version within ten seconds after a job published
it; for a location that is not a local path, restart the server.
"""

import argparse
import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import Field

import spark_auc
from spark_auc.errors import ConfigError, DataError, SparkAUCError

Row = dict[str, Any]
MOST_ROWS = 10_000
_log = logging.getLogger("http_server")


class Current:
    """The ranker of a location, and its version."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.manifest = self._manifest()
        self.ranker = self._load()

    def _manifest(self) -> bytes | None:
        file = Path(self.location) / "manifest.json"
        return file.read_bytes() if file.is_file() else None

    def _load(self) -> spark_auc.ServedRanker:
        ranker = spark_auc.load(self.location)
        if ranker.columns is None:
            raise ConfigError(
                f"found features without names at {self.location!r}, expected a ranker of "
                "columns; train it with a recipe or a list of columns"
            )
        return ranker

    def refresh(self) -> None:
        """Load the ranker again if another version is published; keep it if that fails."""
        try:
            manifest = self._manifest()
            if manifest != self.manifest:
                self.ranker, self.manifest = self._load(), manifest
        except (SparkAUCError, OSError) as error:
            _log.error("the old version stays: %s", error)


def version_of(ranker: spark_auc.ServedRanker) -> str:
    """Name of the published version's directory, or else the id of the saved model."""
    assert ranker.stage is not None
    *_, name, last = ranker.stage.uri.split("/")
    uid: str = ranker.stage.metadata["uid"]
    return name if last == "model" and "/versions/" in ranker.stage.uri else uid


def scored(ranker: spark_auc.ServedRanker, row: Row) -> dict[str, Any]:
    """What the server answers for a row."""
    row = with_times(ranker, row)
    answer = {"score": ranker.score(row), "label": ranker.predict(row)}
    return answer | ({"probability": ranker.probability(row)} if ranker.curve else {})


def with_times(ranker: spark_auc.ServedRanker, row: Row) -> Row:
    """The row with times in place of their text, which JSON has for them."""
    columns = ranker.recipe.columns if ranker.recipe else ()
    times = {column.name for column in columns if column.type == "time"}
    try:
        return {
            name: datetime.fromisoformat(value) if name in times and value is not None else value
            for name, value in row.items()
        }
    except (TypeError, ValueError) as error:
        raise DataError(
            f"found a time that is none ({error}), expected text such as 2024-02-29T12:00:00"
        ) from None


def service(location: str, seconds: float = 10.0) -> FastAPI:
    """The server of a location, which looks for a new version every few seconds."""
    current = Current(location)

    async def watch() -> None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(current.refresh)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(watch())
        yield
        task.cancel()

    app = FastAPI(title="spark_auc", lifespan=lifespan)

    @app.exception_handler(DataError)
    def refused(_: Request, error: DataError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.post("/score")
    def score(rows: Row | Annotated[list[Row], Field(max_length=MOST_ROWS)]) -> dict[str, Any]:
        # One version answers all rows.
        ranker, answers = current.ranker, []
        for number, row in enumerate(rows if isinstance(rows, list) else [rows]):
            try:
                answers.append(scored(ranker, row))
            except DataError as error:
                raise DataError(f"row {number}: {error}") from None
        return {"version": version_of(ranker), "rows": answers}

    return app


def main() -> None:
    """Run the server."""
    parser = argparse.ArgumentParser(description="Score rows by HTTP.")
    parser.add_argument("model", help="output.path of a job, or the path of a saved ranker")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    uvicorn.run(service(options.model), host=options.host, port=options.port)


if __name__ == "__main__":
    main()
