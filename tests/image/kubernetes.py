"""The examples of Kubernetes as they are read: documents, and the pods that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/kubernetes"
NAMES = ("retrain", "spark_application", "train")


def documents(name: str) -> dict[str, Any]:
    """The documents of an example, by kind."""
    found = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
    return {document["kind"]: document for document in found}


def pod_of(name: str) -> dict[str, Any]:
    """The pod of a Job or of a CronJob, as its spec."""
    made = documents(name)
    job = made["CronJob"]["spec"]["jobTemplate"] if "CronJob" in made else made["Job"]
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod
