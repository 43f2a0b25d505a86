"""Rankers in the format of saved stages, without Spark."""

import uuid

import pyarrow as pa

from spark_auc.features.recipe_json import to_json
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.score_curves import saved
from spark_auc.serving.stored_stage import VERSION, StoredStage, hash_of, seal


def stage(kind, table=None, facts=None, parts=None):
    """A stage of a class, with its hashes."""
    uid, parts = f"{kind}_{uuid.uuid4().hex[:12]}", parts or {}
    content = {"version": VERSION, **(facts or {})}
    if parts:
        content["parts"] = {name: part.metadata["uid"] for name, part in parts.items()}
    if table is not None:
        content["hash"] = hash_of(table)
    metadata = {"class": f"spark_auc.{kind}", "uid": uid, "paramMap": {}, "defaultParamMap": {}}
    metadata["spark_auc"] = content
    content["metadata"] = seal(metadata)
    return StoredStage(uid, metadata, table, parts)


def pipeline(scorer: LinearScorer, recipe, curve=None):
    """A `RankerPipelineModel` of a recipe, a ranker and its calibration."""
    parts = {
        "recipe": stage("FeatureRecipeModel", pa.table({"recipe": [to_json(recipe)]})),
        "ranker": stage("LinearRankerModel", *scorer.saved()),
    }
    if curve:
        parts["calibration"] = stage("ScoreCalibrationModel", saved(curve))
    return stage("RankerPipelineModel", parts=parts)
