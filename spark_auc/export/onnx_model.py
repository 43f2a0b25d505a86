"""A ranker as an ONNX model."""

from __future__ import annotations

import json

import numpy as np

from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError, require
from spark_auc.export.onnx_embeddings import mapped
from spark_auc.export.onnx_features import recipe_features
from spark_auc.export.onnx_graph import Graph
from spark_auc.export.refusals import check_columns, check_segments
from spark_auc.export.whole import write_new
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.score_curves import Curve, Sigmoid

_FORMAT = "ONNX"
_SAID = "Scores of a linear ranker; a higher score is a higher rank, and no probability."


def to_onnx(ranker: ServedRanker, path: AnyPath) -> None:
    """Write a ranker as an ONNX model in double precision; needs the extra ``onnx``.

    A recipe has an input for each raw column that scores depend on: doubles of shape (rows,), NaN
    for missing values, 0 and 1 for booleans, and days since 1970-01-01 on the clocks of the
    recipe's zone for times; strings without white space around them for text, empty
    for missing values and the words that the recipe reads so. Without a recipe there is
    one input ``features`` of shape (rows, features). The outputs are ``score`` and, with a
    calibration, ``probability``, doubles of shape (rows,). The metadata of the model have the label
    values and the threshold: a score at or above it predicts the positive one. The score of a row
    that is an error in Python is not defined: with an infinite value in a standardised column, or,
    without a recipe, a missing value.

    Parameters
    ----------
    ranker
        The ranker.
    path
        The file to write: a new path, or a URI that Arrow's file systems reach.

    Raises
    ------
    ConfigError
        The ranker has tokens of text, of times or of integers whose values the recipe does not
        list, crosses, trees that split numbers by sets, segments, or an embedding
        that has no operators; a column has the name of an output; or the path exists or cannot be
        written.
    MissingPackageError
        onnx is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, load, to_onnx
    >>> recipe = FeatureRecipe(spline=["position", "age"], auto=False)
    >>> path = tempfile.mkdtemp()
    >>> RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows).save(path + "/ranker")
    >>> to_onnx(load(path + "/ranker"), path + "/ranker.onnx")
    """
    write_new(path, onnx_bytes(ranker))


def onnx_bytes(ranker: ServedRanker) -> bytes:
    """The file that `to_onnx` writes."""
    require("onnx", "onnx")
    check_segments(ranker, _FORMAT)
    check_columns(ranker, _FORMAT)
    graph, scorer, w = Graph(), ranker.scorer, ranker.scorer.w
    if ranker.recipe is not None:
        X, indices = recipe_features(graph, ranker.recipe)
        if ranker.embeddings:
            X = graph.spread(X, indices, ranker.recipe.size)
        else:
            w = w[indices]
    else:
        first = ranker.embeddings[0].input_dimension if ranker.embeddings else scorer.w.size
        X = graph.input("features", "the features that the ranker was trained on", first)
    for embedding in ranker.embeddings:
        X = mapped(graph, X, embedding)
    score = graph.add("MatMul", X, graph.constant(w[:, None]))
    outputs = {"score": score}
    if ranker.curve:
        outputs["probability"] = _probability(graph, score, ranker.curve)
    facts = {
        "positive": scorer.positive,
        "negative": scorer.negative,
        "threshold": ranker.threshold,
        "columns": graph.input_names,
    }
    return graph.model(outputs, _SAID, {name: json.dumps(fact) for name, fact in facts.items()})


def _probability(graph: Graph, score: str, curve: Curve) -> str:
    if isinstance(curve, Sigmoid):
        odds = graph.add("Mul", score, graph.constant(curve.slope))
        return graph.add("Sigmoid", graph.add("Add", odds, graph.constant(curve.intercept)))
    if not (np.diff(curve.boundaries) > 0).all():
        raise ConfigError(
            f"found the boundaries {curve.boundaries.tolist()} of the curve, expected increasing "
            "ones; calibrate again"
        )
    return graph.interpolated(score, curve.boundaries, curve.probabilities)
