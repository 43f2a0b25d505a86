"""Redaction of secrets in text and in structured content."""

import base64
import json
import logging
import re
import time

import pytest

from spark_auc.app.config.jobs import Configuration
from spark_auc.app.running import _Formatter
from spark_auc.publication.redaction import (
    PLACEHOLDER,
    Redaction,
    names_secret,
    redacted,
    redacted_text,
)
from spark_auc.spark.data import session

M = "Hunter2Marker"


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "sfPassword",
        "PWD",
        "db_pass",
        "es.net.http.auth.pass",
        "fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "fs.azure.account.key.acme.blob.core.windows.net",
        "fs.azure.sas.container.acme.blob.core.windows.net",
        "fs.azure.account.oauth2.client.secret",
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
        "kafka.basic.auth.user.info",
        "eventhubs.connectionString",
        "connection_string",
        "pem_private_key",
        "apiKey",
        "X-Amz-Signature",
        "X-Amz-Credential",
        "sig",
        "sasToken",
        "Authorization",
        "credentialsFile",
        "parquet.encryption.key.list",
        "spark.authenticate.secret",
        "javax.net.ssl.trustStorePassword",
    ],
)
def test_keys_of_secrets(key):
    assert names_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        *("key", "path", "url", "user", "dbtable", "header", "inferSchema", "sep", "author"),
        *("key.deserializer", "subscribe", "partitionColumn", "columns.key", "passes", "design"),
        *("spark.driver.memory", "spark.master", "kafka.bootstrap.servers", "fs.s3a.endpoint"),
    ],
)
def test_keys_without_secrets(key):
    assert not names_secret(key)


def test_no_key_of_the_configuration_names_a_secret():
    """All keys of sections are published in config.json with their values."""
    schema = Configuration.model_json_schema()
    keys = {key for part in schema["$defs"].values() for key in part.get("properties", {})}
    assert {"regParam", "key", "checkpoint"} <= keys
    assert {key for key in keys if names_secret(key)} == {"tokens", "tokenNames"}
    recipe = {"features": {"tokens": ["site", "device"], "tokenNames": False}}
    assert redacted(recipe) == recipe
    named = {"tokens": recipe["features"]["tokens"]}
    assert redacted({"options": named}) == {"options": {"tokens": PLACEHOLDER}}


@pytest.mark.parametrize(
    "text",
    [
        f"jdbc:postgresql://u:{M}@h/db",
        f"jdbc:postgresql://u:{M}@x@h/db",
        f"jdbc:postgresql://u:{M}/x?#@h:1/db",
        f"jdbc:oracle:thin:scott/{M}@//h:1/x",
        f"jdbc:sqlserver://h;user=sa;password={M};y=1",
        f"jdbc:mysql://h/db?user=u&password={M}&x=1",
        f"s3://AKIA{M}:x@bucket/p",
        f"abfss://c:{M}@account.dfs.core.windows.net/p",
        f"https://{M}@github.com/x",
        f"https://acme.blob.core.windows.net/c?sp=r&sig={M}&z=1",
        f"sc://h:443/;token={M};user_id=x",
        f"Endpoint=sb://x/;SharedAccessKeyName=r;SharedAccessKey={M}=;",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={M}==;",
        f"-Djavax.net.ssl.trustStorePassword={M}",
        f'{{"password": "{M} with spaces"}}',
        f"{{'password': '{M} with spaces'}}",
        rf"{{\"password\": \"{M} x\"}}",
        f"Map(user -> x, password -> {M})",
        f'PlainLoginModule required username="u" password="{M}\\"{M}";',
        f"Authorization: Bearer {M}",
        f"a=b=password={M}",
        f"x%70assword={M}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{M}\n-----END RSA PRIVATE KEY----- and",
        f"-----BEGIN PRIVATE KEY-----\n{M}",
    ],
)
def test_texts_with_secrets(text):
    redacted_once = redacted_text(text)
    assert M not in redacted_once
    assert redacted_text(redacted_once) == redacted_once
    assert M not in json.dumps(redacted({"options": {"x": text}}))
    if "://" in text or text.startswith("jdbc:"):
        assert M not in redacted({"path": text})["path"]


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.core.windows.net/a",
        "hdfs://namenode:8020/user/me@corp/model",
        "s3://bucket/a:b@c",
        "file:///data/rows",
        "found no column 'token', expected one of 'password', 'y'; check train.columns",
        "train.training.regParam=0.01",
        "",
    ],
)
def test_texts_without_secrets_do_not_change(text):
    assert redacted_text(text) == text
    assert Redaction({"a": {"options": {"header": True}}})(text) == text


def test_structured_content():
    content = {
        "options": {"password": M, "user": "me", "n": 3, "query": f"x password={M}"},
        "conf": {"spark.a.secret": [M, {"b": M}], "token": None, "keepTokens": False},
        "path": f"s3a://k:{M}@b/c",
        "weights": [{"feature": "token=abc", "weight": 0.5}],
    }
    cleaned = redacted(content)
    assert M not in json.dumps(cleaned)
    assert cleaned["options"]["user"] == "me"
    assert cleaned["options"]["n"] == 3
    assert cleaned["conf"] == {"spark.a.secret": PLACEHOLDER, "token": None, "keepTokens": False}
    assert cleaned["weights"] == content["weights"]
    assert content["options"]["password"] == M


def test_counts_by_label_are_not_secrets():
    """A label may have the name of a secret; numbers are secrets among settings only."""
    counts = {"rows": {"pass": 10, "fail": 3}, "shares": [{"token": 0.5}]}
    assert redacted(counts) == counts
    assert redacted({"options": {"pin": 1234}}) == {"options": {"pin": PLACEHOLDER}}


@pytest.mark.parametrize(
    "secret",
    ["p w;d&x", "quo\"te'd\\", "line\nfeed and more", "ünï©ode", "a/b@c:d", "1234567", "per%cent"],
)
def test_known_secrets_are_removed_without_their_names(secret):
    url = f"jdbc:x://h/db;user=u;password={secret};z=1"
    forms = [
        secret,
        repr(secret),
        json.dumps(secret),
        json.dumps([secret], ensure_ascii=False),
        f"login of u failed with <{secret}>",
    ]
    for content in (
        {"train": {"data": {"options": {"password": secret}}}},
        {"spark": {"conf": {"x.secret.key": [{"deep": secret}]}}},
        *([{"url": url}] if not set(secret) & set(";&\"'\n") else []),
    ):
        hide = Redaction(content)
        for form in forms:
            message = hide(f"error: {form}, see the log")
            assert secret not in message, (content, form)
            assert PLACEHOLDER in message
    assert secret.splitlines()[-1] not in Redaction({"password": secret})(secret)


def test_logs_and_traces():
    hide = Redaction({"options": {"token": M}})
    formatter = _Formatter(hide)
    try:
        raise ValueError(f"the driver said {M}")
    except ValueError as error:
        trace = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.INFO, "f", 1, "read %s", (f"<{M}>",), trace)
    assert M not in formatter.format(record)
    assert "the driver said" in formatter.format(record)


def test_repeated_content_is_visited_once():
    content = {"password": [M]}
    for _ in range(60):
        content = {"a": content, "b": content, "token": content}
    loop = {"password": M}
    loop["again"] = loop
    start = time.process_time()
    assert M not in Redaction(content)(f"<{M}>")
    assert M not in Redaction(loop)(f"<{M}>")
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "text",
    [
        *("a=" * 50_000, "://" * 20_000, "x" * 10**6, 'a="' * 50_000, "password=" * 50_000),
        *("://a:b:" * 20_000, "-----BEGIN PRIVATE KEY-----" * 20_000, "jdbc:oracle:a:" * 20_000),
        base64.b64encode(bytes(300_000)).decode(),
    ],
    ids=lambda text: text[:10],
)
def test_long_texts_take_little_time(text):
    start = time.process_time()
    redacted_text(text)
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.azure.account.key.acme.blob.core.windows.net",
        "spark.hadoop.fs.azure.sas.container.acme.blob.core.windows.net",
        "spark.kafka.sasl.jaas.config",
        "spark.es.net.http.auth.pass",
        "spark.my.sasToken",
        "spark.ssl.keyStorePassword",
    ],
)
def test_spark_hides_settings_of_the_same_names(key):
    assert names_secret(key)
    assert re.search(session._SECRET, key)
