"""A graph of ONNX operators in double precision, as it is built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import spark_auc
from spark_auc.core.types import Float

# The oldest operators that have all types used here, and the format of files of their time.
_OPERATORS, _FILES = 19, 9
# Names of results; "/" keeps them apart from the columns of most tables.
_RESULT = "spark_auc/"


class Graph:
    """Operators in the order in which they run, with constants and inputs.

    All numbers are doubles: float32 would round thresholds, and the values compared with them.
    """

    def __init__(self) -> None:
        self._nodes = list[Any]()
        self._inputs = list[Any]()
        self._constants = dict[tuple[str, tuple[int, ...], bytes], Any]()

    def input(self, name: str, said: str, *shape: int) -> str:
        """An input of rows: a number of each, or the numbers of a shape."""
        from onnx import TensorProto

        return self._input(name, TensorProto.DOUBLE, said, *shape)

    def words(self, name: str, known: list[str]) -> str:
        """An input of text, as booleans ``(n, k)`` of whether it is each of the known words."""
        from onnx import TensorProto, numpy_helper

        text = self.column(self._input(name, TensorProto.STRING, "text; empty if missing"))
        row = f"{_RESULT}words of {name}"
        array = numpy_helper.from_array(np.array([known], object).reshape(1, -1), row)
        self._constants[row, (), b""] = array
        return self.add("Equal", text, row)

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs."""
        return [info.name for info in self._inputs]

    def constant(self, value: ArrayLike, type: type[np.generic] = np.float64) -> str:
        """A constant; equal ones are one."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(value, type).reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"{_RESULT}constant {len(self._constants)}"
            self._constants[key] = numpy_helper.from_array(array, name)
        return str(self._constants[key].name)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The result of an operator."""
        name = f"{_RESULT}{len(self._nodes)}"
        self._append(operator, inputs, name, attributes)
        return name

    def doubles(self, flags: str) -> str:
        """Booleans as 0 and 1."""
        from onnx import TensorProto

        return self.add("Cast", flags, to=TensorProto.DOUBLE)

    def total(self, x: str, axis: int = 1) -> str:
        """The sum over an axis, which is kept."""
        return self.add("ReduceSum", x, self.constant([axis], np.int64), keepdims=1)

    def column(self, x: str) -> str:
        """Numbers ``(n,)`` as ``(n, 1)``."""
        return self.add("Unsqueeze", x, self.constant([1], np.int64))

    def joined(self, parts: list[str]) -> str:
        """Rows ``(n, k)`` side by side."""
        return self.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]

    def taken(self, x: str, places: ArrayLike) -> str:
        """Columns of rows ``(n, k)``."""
        return self.add("Gather", x, self.constant(places, np.int64), axis=1)

    def spread(self, x: str, places: NDArray[np.int64], width: int) -> str:
        """Columns of rows ``(n, k)`` at their places in rows ``(n, width)``, 0 elsewhere."""
        if np.array_equal(places, np.arange(width)):
            return x
        columns = np.full(width, places.size)
        columns[places] = np.arange(places.size)
        padded = self.add("Pad", x, self.constant([0, 0, 0, 1], np.int64))
        return self.taken(padded, columns)

    def ramps(self, x: str, knots: Float) -> str:
        """The share ``(n, k - 1)`` of each interval of knots that lies below ``x`` ``(n, 1)``."""
        low, high = knots[:-1], knots[1:]
        with np.errstate(over="ignore"):
            # Steps of more than the largest double are divided in halves.
            factor = np.where(np.isinf(high - low), 0.5, 1.0)
        if (factor < 1).any():
            x = self.add("Mul", x, self.constant(factor))
        above = self.add("Sub", x, self.constant(low * factor))
        share = self.add("Div", above, self.constant(high * factor - low * factor))
        return self.add("Clip", share, self.constant(0.0), self.constant(1.0))

    def interpolated(self, x: str, knots: Float, heights: Float) -> str:
        """The function ``(n, 1)`` of ``x``: linear between knots, constant beyond them."""
        if knots.size == 1:
            knots, heights = np.append(knots, np.nextafter(knots, np.inf)), np.repeat(heights, 2)
        rises = self.add("MatMul", self.ramps(x, knots), self.constant(np.diff(heights)[:, None]))
        return self.add("Add", rises, self.constant([[heights[0]]]))

    def hats(self, x: str, knots: Float) -> str:
        """The hats ``(n, k)`` of numbers ``(n, 1)``; all are 0 where the number is NaN."""
        missing = self.add("IsNaN", x)
        present = self.doubles(self.add("Not", missing))
        if knots.size == 1:
            return present
        # Where the number is missing, the first knot stands for it, at which all shares are 0.
        filled = self.add("Where", missing, self.constant(knots[0]), x)
        shares = self.ramps(filled, knots)
        after = self.add("Pad", shares, self.constant([0, 0, 0, 1], np.int64))
        return self.add("Sub", self.joined([present, shares]), after)

    def model(self, outputs: Mapping[str, str], said: str, facts: Mapping[str, str]) -> bytes:
        """The bytes of the model.

        Parameters
        ----------
        outputs
            Results ``(n, 1)`` by the names of outputs ``(n,)``.
        said
            What the model is.
        facts
            Its metadata.
        """
        from onnx import TensorProto, checker, helper

        one = self.constant([1], np.int64)
        for name, result in outputs.items():
            self._append("Squeeze", (result, one), name, {})
        infos = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, ["rows"]) for n in outputs]
        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, "ranker", self._inputs, infos, constants)
        model = helper.make_model(
            graph,
            producer_name="spark_auc",
            producer_version=spark_auc.__version__,
            ir_version=_FILES,
            opset_imports=[helper.make_opsetid("", _OPERATORS)],
            doc_string=said,
        )
        helper.set_model_props(model, dict(facts))
        checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())

    def _input(self, name: str, type: int, said: str, *shape: int) -> str:
        from onnx import helper

        info = helper.make_tensor_value_info(name, type, ["rows", *shape], said)
        self._inputs.append(info)
        return name

    def _append(
        self, operator: str, inputs: tuple[str, ...], output: str, attributes: Mapping[str, Any]
    ) -> None:
        from onnx import helper

        self._nodes.append(helper.make_node(operator, inputs, [output], **attributes))
