"""Removing secrets from files, logs and messages.

Secrets are the values of keys that name a secret, such as a password (`names_secret`), the user
information before the ``@`` of a URL, parameters of a URL or connection string that name a secret,
and private keys. `redacted` removes them from mappings and lists, `redacted_text` from text.
`Redaction` also removes the secrets of a known configuration where they appear without their
names, as in the errors of a database driver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

# The patterns of values match the whole placeholder: redacting a text again does not change it.
PLACEHOLDER = "***redacted***"

# A key names a secret if its letters and digits, in lower case, contain one of these parts ...
_PARTS = re.compile(
    "secret|passw|passphrase|passcode|pwd|token|credential|jaas|signature|authorization|bearer|"
    "cookie|connectionstring|connstr|userinfo|keylist|columnkeys|"
    "(?:access|account|api|private|shared|auth|encryption|footer|keystore|ssl|sse|master|signing|"
    "session|storage|customer|pem)key"
)
# ... or if one of its words is one of these. As parts they would match "passes" or "author".
_WORDS = frozenset({"pass", "auth", "sas", "sig", "pat", "pin"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SEPARATOR = re.compile(r"[^a-z0-9]+")

# In URLs of these schemes the part before the @ names a container, unless it contains a colon.
_CONTAINERS = re.compile("(?:abfss?|wasbs?)$", re.IGNORECASE)
_USERINFO = re.compile(
    r":/{2,}(?P<info>[^\s/?#\"'<>]{0,1024}"
    # A password may contain unencoded characters; a host with a port is not a password.
    r"|[^\s/?#:@\"'<>]{0,256}:(?!\d+[/?#])[^\s\"'<>]{0,1024})@"
)
_ORACLE = re.compile(r"jdbc:oracle:\w+:(?P<info>[^\s@/\"'<>]{1,256}/[^\s@]{0,256})@")
_NAME = re.compile(r"(?<![\w.%])([A-Za-z_][\w.%-]*)\\?[\"']?\s*(?:=|:|->)\s*")
# The key of a recipe, whose value has names of columns.
_TOKENS = re.compile(r"([\"'])tokens\1: \[")
_QUOTED = (
    re.escape(PLACEHOLDER) + r"|\\\"(?:[^\"\\]|\\[^\"])*(?:\\\")?"
    r"|\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?"
)
_SCHEMES = r"(?:(?:Bearer|Basic|Digest|Token|SharedAccessSignature)\s+)?"
# A value in any text, where a space ends it, and in a connection string, where it does not.
_IN_TEXT = re.compile(rf"{_QUOTED}|{_SCHEMES}[^\s;&,\"'<>()\]}}]+", re.DOTALL)
_IN_ADDRESS = re.compile(rf"{_QUOTED}|[^;&]+", re.DOTALL)
_PEM = re.compile(r"-----BEGIN [A-Z ]*KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)", re.DOTALL)
# Shorter secrets are parts of too many other words.
_SHORTEST = 4
# Keys whose text has options, settings or SQL.
_WITH_PAIRS = frozenset({"options", "conf", "where", "select"})
_LITERALS = frozenset({"true", "false", "none", "null"})


def names_secret(key: str) -> bool:
    """Whether the values of a key are secrets.

    Parameters
    ----------
    key
        The name, such as ``password``, ``fs.s3a.secret.key`` or ``sasToken``.
    """
    plain = _SEPARATOR.sub("", key.lower())
    return bool(_PARTS.search(plain)) or any(word.lower() in _WORDS for word in _WORD.findall(key))


def redacted(content: Any) -> Any:
    """Return a copy of mappings and lists with secrets replaced by the placeholder.

    Numbers of secret keys, and ``name=value`` pairs inside of text (the category
    ``token=abc``), are secrets only below a key ``options``, ``conf``, ``where`` or ``select``.
    Pairs in URLs always are. A list of the key ``tokens`` has names of columns.
    """
    return _redacted(content, settings=False)


def _redacted(content: Any, *, settings: bool) -> Any:
    if isinstance(content, Mapping):
        return {
            key: PLACEHOLDER
            if names_secret(str(key)) and _may_be_secret(str(key), value, settings)
            else _redacted(value, settings=settings or key in _WITH_PAIRS)
            for key, value in content.items()
        }
    if isinstance(content, list | tuple):
        return [_redacted(value, settings=settings) for value in content]
    if isinstance(content, str):
        is_url = "://" in content or content.startswith("jdbc:")
        return redacted_text(content) if settings or is_url else content
    return content


def _may_be_secret(key: str, value: Any, settings: bool) -> bool:
    # Results have counts by label, and "pass" may be a label.
    is_count = isinstance(value, int | float) and not settings
    is_columns = _has_columns(key, value) and not settings
    return not (value is None or isinstance(value, bool) or is_count or is_columns)


def _has_columns(key: str, value: Any) -> bool:
    """Whether a key of a recipe has names of columns."""
    return key == "tokens" and isinstance(value, list | tuple)


def redacted_text(text: str) -> str:
    """Return text without user information in URLs, values of secret names and private keys."""
    text = _PEM.sub(PLACEHOLDER, text)
    for pattern in (_USERINFO, _ORACLE):
        text = pattern.sub(_without_userinfo, text)
    kept, end = [], 0
    for start, after in _values(text, _IN_TEXT):
        kept += [text[end:start], PLACEHOLDER]
        end = after
    return "".join([*kept, text[end:]])


def _without_userinfo(match: re.Match[str]) -> str:
    before = match[0][: match.start("info") - match.start()]
    return f"{before}{PLACEHOLDER}@" if _is_secret(match) else match[0]


def _is_secret(userinfo: re.Match[str]) -> bool:
    info, before = userinfo["info"], userinfo.string[: userinfo.start()][-8:]
    return bool(info) and (":" in info or not _CONTAINERS.search(before))


def _values(text: str, form: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each value whose name names a secret."""
    place = 0
    while name := _NAME.search(text, place):
        place = name.end()
        if not names_secret(unquote(name[1])) or _TOKENS.match(text, name.start(1) - 1):
            continue
        if value := form.match(text, place):
            yield value.span()
            place = value.end()


class Redaction:
    """A function that removes the secrets of a configuration from text, with or without names.

    Parameters
    ----------
    content
        The configuration as mappings and lists.
    """

    def __init__(self, content: Any = None) -> None:
        forms = {
            form
            for secret in _secrets(content, secret=False, seen=set())
            for form in _forms(secret)
            if len(form) >= _SHORTEST and form.lower() not in _LITERALS
        }
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def __call__(self, text: str) -> str:
        """Return text without secrets."""
        if self._known is not None:
            text = self._known.sub(PLACEHOLDER, text)
        return redacted_text(text)


def _secrets(content: Any, secret: bool, seen: set[tuple[int, bool]]) -> Iterator[str]:
    """Yield the values of secret keys and the secrets inside of texts.

    YAML aliases can repeat a mapping or refer to their own: each is visited once.
    """
    if isinstance(content, Mapping | list | tuple):
        if (id(content), secret) in seen:
            return
        seen.add((id(content), secret))
        pairs = content.items() if isinstance(content, Mapping) else (("", v) for v in content)
        for key, value in pairs:
            named = names_secret(str(key)) and not _has_columns(str(key), value)
            yield from _secrets(value, secret or named, seen)
    elif secret and content is not None and not isinstance(content, bool):
        yield str(content)
    if isinstance(content, str):
        yield from _inside(content)


def _inside(text: str) -> Iterator[str]:
    """Yield the secrets in a URL, a connection string or any other text."""
    yield from _PEM.findall(text)
    for pattern in (_USERINFO, _ORACLE):
        for match in pattern.finditer(text):
            if not _is_secret(match):
                continue
            user, colon, password = re.sub("[:/]", ":", match["info"], count=1).partition(":")
            # A user name of usual length appears in other places too; a token is longer.
            if colon:
                yield from (match["info"], password)
            elif len(user) >= 4 * _SHORTEST:
                yield user
    for form in (_IN_ADDRESS, _IN_TEXT):
        for start, end in _values(text, form):
            yield text[start:end].strip("\"'")


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret may be printed: escaped, quoted, by line."""
    for plain in {secret, secret.strip(), unquote(secret)}:
        yield plain
        yield repr(plain)[1:-1]
        yield json.dumps(plain)[1:-1]
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
        with_bytes = plain.encode("utf-8", "surrogatepass")
        yield quote(with_bytes, safe="")
        yield quote(with_bytes)
    yield from (line.strip() for line in secret.splitlines() if len(line.strip()) >= 2 * _SHORTEST)
