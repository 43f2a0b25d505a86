"""Mutated configurations are valid, or fail with a `ConfigError` that has a key and no secret."""

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
from spark_auc.errors import ConfigError
from spark_auc.publication.redaction import redacted
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


def paths_of_keys(content, parents=()):
    """The path of every key of a configuration."""
    paths = []
    if isinstance(content, dict):
        for key, value in content.items():
            paths += [(*parents, key), *paths_of_keys(value, (*parents, key))]
    return paths


@st.composite
def configurations(draw):
    content = copy.deepcopy(draw(st.sampled_from(SHIPPED)))
    for path in paths_of_keys(content):
        if path[-1] in {"data", "source", "validation"} or path == ("spark",):
            section = content
            for key in path:
                section = section[key]
            name = "conf" if path == ("spark",) else "options"
            if (isinstance(section, dict) and "path" in section) or name == "conf":
                section[name] = (section.get(name) or {}) | SECRET
    for _ in range(draw(st.integers(0, 4))):
        mutate(draw, content)
    return content


def mutate(draw, content):
    path = draw(st.sampled_from(paths_of_keys(content) or [("train",)]))
    section = content
    for key in path[:-1]:
        section = section[key]
    last = path[-1]
    how = draw(
        st.sampled_from(["value", "drop", "rename", "add", "wrap", "move", "secrets", "deep"])
    )
    # The name of a secret must stay: without it nothing shows that the value is a secret.
    secret = last in SECRET or str(last).startswith(M)
    if how == "value":
        section[last] = draw(values)
    elif how == "drop":
        section.pop(last, None)
    elif how == "rename" and not secret:
        section[draw(st.one_of(st.sampled_from(KEYS), texts, st.integers(), st.none()))] = (
            section.pop(last, None)
        )
    elif how == "add":
        section[draw(st.one_of(st.sampled_from(KEYS), texts))] = draw(values)
    elif how == "wrap":
        section[last] = draw(
            st.sampled_from([lambda v: [v], lambda v: {"x": v}, lambda v: {last: v}])
        )(section.get(last))
    elif how == "move":
        content[last] = section.get(last)
    elif how == "secrets":
        section[last] = dict(SECRET)
    elif how == "deep":
        section[last] = nested(draw(st.integers(1, DEPTH)))


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
        # Lines of secrets stay as they are, since a changed name no longer marks a secret.
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
def test_a_configuration_is_valid_or_explained(data, arguments):
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(data)
        file.flush()
        start = time.process_time()
        try:
            configuration = load(file.name, arguments)
        except ConfigError as error:
            message = str(error)
            assert M not in message.replace(file.name, "")
            assert "found" in message
            # The message names a key, a line or an argument.
            assert any(sign in message for sign in ("'", "argument", "line", "nested", "value"))
            assert len(message) < 20_000
        else:
            assert isinstance(configuration, Configuration)
            published = redacted(configuration.model_dump(mode="json"))
            assert M not in json.dumps(published, allow_nan=False)
            configuration.spark.settings()
            assert M not in repr(configuration)
        assert time.process_time() - start < 5
    assert "pyspark.java_gateway" not in sys.modules or "pyspark.sql" in sys.modules
