"""Keeping secrets out of what is written, logged and printed.

A value is secret whose key names a secret (`names_secret`); so is what stands before the ``@`` of
a URL, and a parameter of a URL or connection string whose name names one. `redacted` serves
structured content, `redacted_text` any text, and `Redaction` text in which the secrets of a known
configuration may stand without their names, as in the errors of a driver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

# Redacting a redacted text changes nothing.
PLACEHOLDER = "***redacted***"

# Letters and digits of a key, in lower case, hold one of these ...
_PARTS = re.compile(
    "secret|passw|passphrase|passcode|pwd|token|credential|jaas|signature|authorization|bearer|"
    "cookie|connectionstring|connstr|userinfo|keylist|columnkeys|"
    "(?:access|account|api|private|shared|auth|encryption|footer|keystore|ssl|sse|master|signing|"
    "session|storage|customer|pem)key"
)
# ... or one of its words is one of these.
_WORDS = frozenset({"pass", "auth", "sas", "sig", "pat", "pin"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SEPARATOR = re.compile(r"[^a-z0-9]+")

# In these the part before the @ names a container, unless a colon is in it.
_CONTAINERS = re.compile("(?:abfss?|wasbs?)$", re.IGNORECASE)
_USERINFO = re.compile(
    r":/{2,}(?P<info>[^\s/?#\"'<>]{0,1024}"
    # A password that is not encoded, unlike a host with its port.
    r"|[^\s/?#:@\"'<>]{0,256}:(?!\d+[/?#])[^\s\"'<>]{0,1024})@"
)
_ORACLE = re.compile(r"jdbc:oracle:\w+:(?P<info>[^\s@/\"'<>]{1,256}/[^\s@]{0,256})@")
_NAME = re.compile(r"(?<![\w.%])([A-Za-z_][\w.%-]*)\\?[\"']?\s*(?:=|:|->)\s*")
_QUOTED = (
    re.escape(PLACEHOLDER) + r"|\\\"(?:[^\"\\]|\\[^\"])*(?:\\\")?"
    r"|\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?"
)
_SCHEMES = r"(?:(?:Bearer|Basic|Digest|Token|SharedAccessSignature)\s+)?"
# What ends a value in any text, and in a connection string, where spaces do not.
_IN_TEXT = re.compile(rf"{_QUOTED}|{_SCHEMES}[^\s;&,\"'<>()\]}}]+", re.DOTALL)
_IN_ADDRESS = re.compile(rf"{_QUOTED}|[^;&]+", re.DOTALL)
_PEM = re.compile(r"-----BEGIN [A-Z ]*KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)", re.DOTALL)
# Shorter ones are found in too many other words.
_SHORTEST = 4
_LITERALS = frozenset({"true", "false", "none", "null"})


def names_secret(key: str) -> bool:
    """Whether values under a key are secret.

    Parameters
    ----------
    key
        Such as ``password``, ``fs.s3a.secret.key`` or ``sasToken``.
    """
    plain = _SEPARATOR.sub("", key.lower())
    return bool(_PARTS.search(plain)) or any(word.lower() in _WORDS for word in _WORD.findall(key))


def redacted(content: Any) -> Any:
    """Content of mappings and lists with its secrets replaced; itself where it has none.

    Texts keep pairs of a name and a value (a category ``token=abc`` is no secret) unless they are
    URLs or stand below a key ``options`` or ``conf``; numbers are secret only there.
    """
    return _redacted(content, settings=False)


def _redacted(content: Any, *, settings: bool) -> Any:
    if isinstance(content, Mapping):
        return {
            key: PLACEHOLDER
            if names_secret(str(key)) and _may_be_secret(value, settings)
            else _redacted(value, settings=settings or key in {"options", "conf"})
            for key, value in content.items()
        }
    if isinstance(content, list | tuple):
        return [_redacted(value, settings=settings) for value in content]
    if isinstance(content, str):
        is_url = "://" in content or content.startswith("jdbc:")
        return redacted_text(content) if settings or is_url else content
    return content


def _may_be_secret(value: Any, settings: bool) -> bool:
    # Results count rows by label, and a label may be called "pass".
    counted = isinstance(value, int | float) and not settings
    return not (value is None or isinstance(value, bool) or counted)


def redacted_text(text: str) -> str:
    """Text without userinfo in URLs, values beside a name that names a secret, private keys."""
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
    """Where values stand whose names name a secret."""
    place = 0
    while name := _NAME.search(text, place):
        place = name.end()
        if names_secret(unquote(name[1])) and (value := form.match(text, place)):
            yield value.span()
            place = value.end()


class Redaction:
    """Text without the secrets of a configuration, wherever they stand.

    Parameters
    ----------
    content
        The configuration, of mappings and lists.
    """

    def __init__(self, content: Any = None) -> None:
        found = {
            form
            for secret in _secrets(content, secret=False, seen=set())
            for form in _forms(secret)
            if len(form) >= _SHORTEST and form.lower() not in _LITERALS
        }
        longest_first = sorted(found, key=lambda form: (-len(form), form))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if found else None

    def __call__(self, text: str) -> str:
        """Return text without them."""
        if self._known is not None:
            text = self._known.sub(PLACEHOLDER, text)
        return redacted_text(text)


def _secrets(content: Any, secret: bool, seen: set[tuple[int, bool]]) -> Iterator[str]:
    """Values of secret keys, and those inside of texts; what YAML repeats is walked once."""
    if isinstance(content, Mapping | list | tuple):
        if (id(content), secret) in seen:
            return
        seen.add((id(content), secret))
        pairs = content.items() if isinstance(content, Mapping) else (("", v) for v in content)
        for key, value in pairs:
            yield from _secrets(value, secret or names_secret(str(key)), seen)
    elif secret and content is not None and not isinstance(content, bool):
        yield str(content)
    if isinstance(content, str):
        yield from _inside(content)


def _inside(text: str) -> Iterator[str]:
    """Secrets in a URL or connection string."""
    yield from _PEM.findall(text)
    for pattern in (_USERINFO, _ORACLE):
        for match in pattern.finditer(text):
            if not _is_secret(match):
                continue
            user, colon, password = re.sub("[:/]", ":", match["info"], count=1).partition(":")
            # A user's name alone stands in too many places; a token is longer.
            if colon:
                yield from (match["info"], password)
            elif len(user) >= 4 * _SHORTEST:
                yield user
    for form in (_IN_ADDRESS, _IN_TEXT):
        for start, end in _values(text, form):
            yield text[start:end].strip("\"'")


def _forms(secret: str) -> Iterator[str]:
    """A secret as it may be printed."""
    for plain in {secret, secret.strip(), unquote(secret)}:
        yield plain
        yield repr(plain)[1:-1]
        yield json.dumps(plain)[1:-1]
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
        with_bytes = plain.encode("utf-8", "surrogatepass")
        yield quote(with_bytes, safe="")
        yield quote(with_bytes)
    yield from (line.strip() for line in secret.splitlines() if len(line.strip()) >= 2 * _SHORTEST)
