"""Mutated configurations: a valid one, or a `ConfigError` that names the key and no secret."""

import copy
import json
import math
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spark_auc.app.config.jobs import Configuration
from spark_auc.app.config.load import load
from spark_auc.app.config.redaction import redacted
from spark_auc.errors import ConfigError
from tests.fuzz.inputs import inputs

pytestmark = pytest.mark.fuzz

M = "Zq7Marker"
CONF = Path(__file__).parents[2] / "conf"
SECRET = {
    "password": f"{M} 1",
    "url": f"jdbc:x://u:{M}2@h/db?token={M}3;pwd={M}4 x",
    "fs.s3a.secret.key": f"{M}5",
    "kafka.sasl.jaas.config": f'x password="{M}6";',
}
SHIPPED = [yaml.safe_load(path.read_text()) for path in sorted(CONF.glob("*.yaml"))]
KEYS = sorted(
    {
        key
        for part in Configuration.model_json_schema()["$defs"].values()
        for key in part.get("properties", {})
    }
)
DEPTH = 150

numbers = st.one_of(
    st.integers(),
    st.sampled_from([2**63, -(2**63) - 1, 10**400, 0, -1, True, False]),
    st.floats(),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -0.0, 5e-324]),
)
texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["\n", "a\nb: c", "x" * 10_000, "\ud800", "\0", "1e-4", "nan", "${x}", "~", "%"]
    ),
    st.sampled_from(
        ["hdfs:/x", "s3a:x", "../..", "file:/x", "2024-13-45", "*", "&a", "!!python/x"]
    ),
)
scalars = st.one_of(st.none(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), texts, st.integers()), inner, max_size=3),
    ),
    max_leaves=6,
)


def nested(depth):
    value = "x"
    for _ in range(depth):
        value = [value]
    return value


def places(content, path=()):
    """Every key of a configuration."""
    found = []
    if isinstance(content, dict):
        for key, value in content.items():
            found += [(*path, key), *places(value, (*path, key))]
    return found


@st.composite
def configurations(draw):
    content = copy.deepcopy(draw(st.sampled_from(SHIPPED)))
    for path in places(content):
        if path[-1] in {"data", "source", "validation"} or path == ("spark",):
            here = content
            for key in path:
                here = here[key]
            name = "conf" if path == ("spark",) else "options"
            if (isinstance(here, dict) and "path" in here) or name == "conf":
                here[name] = (here.get(name) or {}) | SECRET
    for _ in range(draw(st.integers(0, 4))):
        mutate(draw, content)
    return content


def mutate(draw, content):
    path = draw(st.sampled_from(places(content) or [("train",)]))
    here = content
    for key in path[:-1]:
        here = here[key]
    last = path[-1]
    how = draw(
        st.sampled_from(["value", "drop", "rename", "add", "wrap", "move", "section", "deep"])
    )
    # A secret without its name is no secret that can be known.
    secret = last in SECRET or str(last).startswith(M)
    if how == "value":
        here[last] = draw(values)
    elif how == "drop":
        here.pop(last, None)
    elif how == "rename" and not secret:
        here[draw(st.one_of(st.sampled_from(KEYS), texts, st.integers(), st.none()))] = here.pop(
            last, None
        )
    elif how == "add":
        here[draw(st.one_of(st.sampled_from(KEYS), texts))] = draw(values)
    elif how == "wrap":
        here[last] = draw(
            st.sampled_from([lambda v: [v], lambda v: {"x": v}, lambda v: {last: v}])
        )(here.get(last))
    elif how == "move":
        content[last] = here.get(last)
    elif how == "section":
        here[last] = dict(SECRET)
    elif how == "deep":
        here[last] = nested(draw(st.integers(1, DEPTH)))


ODDITIES = [
    "train: &a {x: *a}",
    "train: &a [*a]",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: &d [*c, *c]\ntrain: {data: [*d, *d]}",
    "train: !!python/object:os.system x",
    "train: 2024-13-45",
    "? [a]\n: b",
    "? {a: b}\n: c",
    "train:\n\tdata: x",
    "--- a\n--- b",
    "train: 0x" + "f" * 5000,
    "train: {data: {path: x, options: {a: 0x" + "f" * 5000 + "}}, output: {path: y}}",
    "spark: {conf: {0x" + "f" * 5000 + ": x, 3: y}}",
    "train: " + "1" * 5000,
    "train: 1:2:3:99",
    "train: !!binary x",
    "train: !!set {a, b}",
    "train: !!timestamp x",
    "train: !!bool x",
    "train: !!int ''",
    "train: !!float x",
    "train: !!omap x",
    "train: !!pairs [x]",
    "train: {data: {options: {password: *" + M + "}}}",
    "train: {data: {options: {password: !" + M + " x}}}",
    "train: {data: {options: {password: [" + M,
    "train: {data: {options: {password: '" + M + "\n",
    'train: {data: {options: {password: "\\' + M + '"}}}',
    "train: {data: {options: {password: @" + M + "}}}",
    "train: {data: {options: {password: {" + M + "}}}}",
    "password: " + M,
    "'\\ud800': x",
    '"\\ud800": "\\udfff"',
    "<<: [a]",
    "<<: {train: {}}",
    "=: x",
    "\0",
    "",
    "~",
    "[" * 3000,
    "{a: " * 3000,
    "- x",
]


@st.composite
def files(draw):
    """The bytes of a file."""
    if draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(ODDITIES)).encode("utf-8", "surrogatepass")
    content = draw(configurations())
    text = yaml.dump(content, allow_unicode=draw(st.booleans()), sort_keys=False)
    data = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        # Not of a secret or its name, for it would be none any more.
        place = draw(st.integers(0, len(data)))
        line = data[data.rfind(b"\n", 0, place) + 1 :].split(b"\n", 1)[0]
        if M.encode() not in line and b"password" not in line:
            data = data[:place] + draw(st.binary(max_size=5)) + data[place:]
    return data


@st.composite
def overrides(draw):
    if draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from(ODDITIES[:20])) if draw(st.booleans()) else draw(texts)
    base = ["train.data.options", "train.training", "spark.conf", "evaluate", "opauc.stream.source"]
    dotted = draw(st.sampled_from(base)) + "." + draw(st.sampled_from([*KEYS, "a..b", "a.b.c", ""]))
    if draw(st.booleans()):
        odd = draw(st.sampled_from(["", "*", "!", "[", "{", "'", '"', "@", "%", "&a ", "- ", "? "]))
        return f"{draw(st.sampled_from(base))}.password={odd}{M}7"
    return f"{dotted}={draw(texts)}"


@inputs(3000)
@given(files(), st.lists(overrides(), max_size=2))
def test_a_configuration_is_valid_or_told_wrong(data, arguments):
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(data)
        file.flush()
        start = time.process_time()
        try:
            found = load(file.name, arguments)
        except ConfigError as error:
            told = str(error)
            assert M not in told.replace(file.name, "")
            assert "found" in told
            # Of the key, the line or the argument that is wrong.
            assert any(sign in told for sign in ("'", "argument", "line", "nested", "value"))
            assert len(told) < 20_000
        else:
            assert isinstance(found, Configuration)
            kept = json.dumps(redacted(found.model_dump(mode="json")), allow_nan=False)
            assert M not in kept
            found.spark.settings()
            assert M not in repr(found)
        assert time.process_time() - start < 5
    assert "pyspark.java_gateway" not in sys.modules or "pyspark.sql" in sys.modules
