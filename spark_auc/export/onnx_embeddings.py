"""Embeddings as ONNX operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spark_auc.export.onnx_graph import Graph
from spark_auc.export.refusals import refused
from spark_auc.features.composition import Composition
from spark_auc.features.embedding import Embedding
from spark_auc.features.fourier import FourierMap
from spark_auc.features.kernels import Kernel
from spark_auc.features.network import NetworkMap
from spark_auc.features.nystroem import NystroemMap
from spark_auc.features.robust_scale import RobustScale
from spark_auc.features.splines import Splines
from spark_auc.features.thresholds import ThresholdMap


def mapped(graph: Graph, X: str, embedding: Embedding) -> str:
    """The rows ``(n, F)`` of an embedding of rows ``(n, d)``; `ConfigError` for another class."""
    if type(embedding) not in _MAPS:
        raise refused(
            f"the embedding {type(embedding).__name__}",
            *("ONNX", f"one of {', '.join(sorted(kind.__name__ for kind in _MAPS))}"),
            "score in Python by spark_auc.load",
        )
    return _MAPS[type(embedding)](graph, X, embedding)


def _splines(graph: Graph, X: str, splines: Splines) -> str:
    parts = list[str]()
    for j in range(splines.input_dimension):
        x, knots = graph.taken(X, [j]), splines.knots[splines.starts[j] : splines.starts[j + 1]]
        parts += [graph.hats(x, knots)] if knots.size else []
        parts.append(graph.doubles(graph.add("IsNaN", x)))
    return graph.joined(parts)


def _robust(graph: Graph, X: str, scale: RobustScale) -> str:
    parts = list[str]()
    for j in range(scale.input_dimension):
        own = slice(scale.starts[j], scale.starts[j + 1])
        x, zero = graph.taken(X, [j]), graph.constant(0.0)
        value = zero
        if own.start < own.stop:
            value = graph.interpolated(x, scale.knots[own], scale.heights[own])
        parts.append(graph.add("Where", graph.add("IsNaN", x), zero, value))
    return graph.joined(parts)


def _thresholds(graph: Graph, X: str, thresholds: ThresholdMap) -> str:
    x = graph.taken(X, thresholds.columns)
    return graph.doubles(graph.add("Greater", x, graph.constant(thresholds.thresholds)))


def _fourier(graph: Graph, X: str, fourier: FourierMap) -> str:
    angles = graph.add("MatMul", X, graph.constant(fourier.frequencies))
    cosines = graph.add("Cos", graph.add("Add", angles, graph.constant(fourier.phases)))
    return graph.add("Mul", cosines, graph.constant(np.sqrt(2.0 / fourier.dimension)))


def _network(graph: Graph, X: str, network: NetworkMap) -> str:
    sums = graph.add("MatMul", X, graph.constant(network.weights))
    return graph.add("Tanh", graph.add("Add", sums, graph.constant(network.offsets)))


def _composition(graph: Graph, X: str, composition: Composition) -> str:
    for part in composition.maps:
        X = mapped(graph, X, part)
    return X


def _nystroem(graph: Graph, X: str, nystroem: NystroemMap) -> str:
    X = graph.add("Div", X, graph.constant(nystroem.scale))
    values = _KERNELS[nystroem.kernel.name](graph, X, nystroem.kernel, nystroem.landmarks)
    return graph.add("MatMul", values, graph.constant(nystroem.projection))


def _gaussian(graph: Graph, X: str, kernel: Kernel, U: Any) -> str:
    # Squared lengths cancel in columns far from 0: rows and landmarks are centred.
    origin = U.mean(axis=0)
    U = U - origin
    X = graph.add("Sub", X, graph.constant(origin))
    lengths = graph.total(graph.add("Mul", X, X))
    products = graph.add("MatMul", X, graph.constant(-2.0 * U.T))
    squared = graph.add("Add", graph.add("Add", products, lengths), graph.constant((U**2).sum(1)))
    distances = graph.add("Max", squared, graph.constant(0.0))
    return graph.add("Exp", graph.add("Div", distances, graph.constant(-kernel.bandwidth)))


def _laplacian(graph: Graph, X: str, kernel: Kernel, U: Any) -> str:
    rows = graph.add("Unsqueeze", X, graph.constant([1], np.int64))
    gaps = graph.add("Abs", graph.add("Sub", rows, graph.constant(U)))
    sums = graph.add("ReduceSum", gaps, graph.constant([2], np.int64), keepdims=0)
    return graph.add("Exp", graph.add("Div", sums, graph.constant(-kernel.bandwidth)))


def _linear(graph: Graph, X: str, kernel: Kernel, U: Any) -> str:
    products = graph.add("MatMul", X, graph.constant(U.T))
    return graph.add("Div", products, graph.constant(kernel.bandwidth))


def _polynomial(graph: Graph, X: str, kernel: Kernel, U: Any) -> str:
    sums = graph.add("Add", _linear(graph, X, kernel, U), graph.constant(kernel.offset))
    return graph.add("Pow", sums, graph.constant(float(kernel.degree)))


_KERNELS: dict[str, Callable[[Graph, str, Kernel, Any], str]] = {
    "gaussian": _gaussian,
    "laplacian": _laplacian,
    "polynomial": _polynomial,
    "linear": _linear,
}
_MAPS: dict[type[Any], Callable[[Graph, str, Any], str]] = {
    Composition: _composition,
    FourierMap: _fourier,
    NetworkMap: _network,
    NystroemMap: _nystroem,
    RobustScale: _robust,
    Splines: _splines,
    ThresholdMap: _thresholds,
}
