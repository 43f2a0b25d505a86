"""The job retrain, every day at 03:15 UTC, as a DAG of Airflow 3.

The job itself processes the periods that were missed, so that the DAG has no catch-up and passes no
date. Exit codes 2 to 5 (settings, data, solver, drift of a period) fail the task without a retry;
1 and 75 (another job at the same time) are retried. A BashOperator would retry all of them. Its
``skip_on_exit_code`` would hide a failure: the task would count as skipped.

With Airflow 2, import ``dag`` and ``task`` from ``airflow.decorators``, and the exceptions from
``airflow.exceptions``.
"""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

COMMAND = ["spark-auc", "retrain", "--config", "/srv/ranker/retrain.yaml"]


@dag(
    schedule="15 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={
        "retries": 3,
        "retry_delay": timedelta(minutes=10),
        "retry_exponential_backoff": True,
        "execution_timeout": timedelta(hours=4),
    },
)
def retrain() -> None:
    """Train and judge a challenger on the newest rows."""

    @task
    def run() -> dict[str, Any]:
        """Run the job, and return its result."""
        # The log of the job, on standard error, goes to the log of the task.
        ended = subprocess.run(COMMAND, stdout=subprocess.PIPE, text=True, check=False)
        lines = ended.stdout.splitlines()
        result: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        if ended.returncode:
            needs_person = 2 <= ended.returncode <= 5
            error = AirflowFailException if needs_person else AirflowException
            raise error(f"exit code {ended.returncode}: {result.get('message', 'no result')}")
        return result

    run()


retrain()
