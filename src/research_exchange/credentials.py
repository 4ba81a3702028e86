"""Finds credentials in evidence by their values, so that reading an environment variable is fine (R-169, R-243).

Each pattern names the literals that a match starts with. Which of them a file has at all is asked of its different
words, since most files say the same ones again and again; an expression runs only where its literal stands. All of
this is done in C, over the whole file: 10 MiB cost tens of milliseconds. Every repetition in an expression is bounded,
so that no file makes it slow. What is found is named and located, never quoted.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["REDACTED", "Finding", "find_credential", "names_credential_file", "redact", "redact_text"]

REDACTED = b"[redacted]"


@dataclass(frozen=True)
class Finding:
    """A credential in a file."""

    what: str
    """Its sort, such as "a GitHub token"; never its value."""
    line: int
    """Counted from 1."""


def find_credential(content: bytes) -> Finding | None:
    """The first credential that a pattern recognizes, or None."""
    content = _spelled_out(content)
    for pattern, match in _matches(content):
        return Finding(pattern.what, content.count(b"\n", 0, match.start()) + 1)
    return None


def redact(content: bytes, known: Sequence[bytes] = ()) -> bytes:
    """The text with `[redacted]` in the place of every credential that `find_credential` finds, and of `known` ones."""
    for secret in known:
        content = content.replace(secret, REDACTED)
    if find_credential(content) is None:
        return content
    content = _spelled_out(content)
    while spans := [_whole(content, match) for _, match in _matches(content)]:
        kept, end = [], 0
        for start, stop in sorted(spans):
            if stop > end:
                kept += [content[end:start], REDACTED] if start >= end else []
                end = stop
        content = b"".join([*kept, content[end:]])
    return content


def redact_text(text: str) -> str:
    """`redact`, for a few words that somebody typed."""
    return redact(text.encode("utf-8", "replace")).decode("utf-8", "replace")


def names_credential_file(name: str) -> bool:
    """Whether a file's name alone says that it holds credentials: `.env`, `prod.env`, `credentials.json`, `id_rsa`."""
    return _CREDENTIAL_FILE.fullmatch(name) is not None


def _spelled_out(content: bytes) -> bytes:
    """The text with the letters, digits and signs themselves for their JSON escapes: `&sig=` for `\\u0026sig=`."""
    # One byte is found many times faster than several, and most files have no such byte.
    return _ESCAPED.sub(_meant, content) if b"\\" in content and b"\\u00" in content else content


def _meant(escaped: re.Match[bytes]) -> bytes:
    return escaped[1] + bytes([int(escaped[2], 16)])


def _matches(content: bytes) -> "Iterator[tuple[_Pattern, re.Match[bytes]]]":
    """Every credential, pattern by pattern."""
    words = content.lower().decode("latin-1") if len(content) < _FEW_BYTES else _different_words(content)
    standing = {literal for text, literal in _LITERALS.items() if text in words}
    if not standing:
        return
    lowered = content.lower()
    for pattern in _PATTERNS:
        for literal in filter(standing.__contains__, pattern.literals):
            for start in _positions(literal, lowered):
                match = pattern.expression.match(content, start)
                if match is not None and not _REFERENCE.search(match["value"]):
                    yield pattern, match


def _different_words(content: bytes) -> str:
    """Every word of a text once, lower-cased; what is in no literal separates words, digits too.

    A literal that stands in the text stands in here. They come as a string, where a literal is found several times
    faster than in bytes.
    """
    lines = set[bytes]()
    for block in _blocks(content):
        lines.update(block.translate(_WORDS).split(b"\n"))
    return b" ".join(set(b" ".join(lines).split())).decode("latin-1")


def _blocks(content: bytes) -> Iterator[bytes]:
    """The text in pieces that a processor's cache holds, cut between lines where there are any."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start + _BLOCK_BYTES)
        end = len(content) if end < 0 else end
        yield content[start:end]
        start = end


def _whole(content: bytes, match: re.Match[bytes]) -> tuple[int, int]:
    """Where a credential stands: its pattern may end before it does, and that of a key is only its first line."""
    start, stop = match.span("value")
    if match["value"] == b"PRIVATE KEY":
        body = _KEY_BODY.match(content, stop)
        return match.start(), body.end() if body else stop
    rest = _MORE.match(content, stop)
    return start, rest.end() if rest else stop


def _positions(literal: bytes, content: bytes) -> Iterator[int]:
    position = content.find(literal)
    while position >= 0:
        yield position
        position = content.find(literal, position + 1)


@dataclass(frozen=True)
class _Pattern:
    what: str
    literals: tuple[bytes, ...]
    """Lower case; a match starts with one of them."""
    expression: re.Pattern[bytes]
    """Its group `value` is the secret itself."""


def _token(what: str, prefixes: Sequence[str], tail: str) -> _Pattern:
    """A value that its issuer marks with a prefix: the prefix starts a word and a plausible tail follows."""
    words = "|".join(re.escape(prefix) for prefix in prefixes)
    expression = rf"(?<![A-Za-z0-9_-])(?P<value>(?:{words}){tail})"
    return _Pattern(what, tuple(p.lower().encode() for p in prefixes), re.compile(expression.encode()))


def _quoted(what: str, names: Sequence[str], value: str) -> _Pattern:
    """`name: "value"`, as JSON, YAML and code write it; the name may stand in quotes or a subscript too."""
    name = rf"(?i:{'|'.join(names)})(?:\\{{0,4}}[\"'])?\]?"
    expression = rf"{name}{_EQUALS}[rbfu]?\\{{0,4}}[\"']{_SCHEME}(?P<value>{value})\\{{0,4}}[\"']"
    return _Pattern(what, _literals(names), re.compile(expression.encode()))


def _bare(what: str, names: Sequence[str], value: str) -> _Pattern:
    """`name: value`, as headers and shells write it. After a name in quotes a bare value would be code."""
    expression = rf"(?i:{'|'.join(names)}){_EQUALS}{_SCHEME}(?P<value>{value})(?![A-Za-z0-9_(\[])"
    return _Pattern(what, _literals(names), re.compile(expression.encode()))


def _literals(names: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(name.lower().encode() for name in names)


_ESCAPED = re.compile(rb"(?<!\\)((?:\\\\)*)\\u00(?!22|5[Cc]|7[Ff])([2-7][0-9A-Fa-f])")
"""A printable ASCII character, but no quotation mark or backslash: these mean something else when they stand there."""
_KEY_BODY = re.compile(
    rb"-----(?:(?:\s|\\[rn]){1,4}(?:(?:Proc-Type|DEK-Info): [^\r\n\\]{1,80}|[A-Za-z0-9+/=]{1,100}(?![^\s\\]))){0,1000}"
    rb"(?:(?:\s|\\[rn])*-----END (?:[A-Z]{1,12} ){0,3}PRIVATE KEY-----)?"
)
"""The rest of its first line, the lines that belong to it, and its last line where it has one."""
_MORE = re.compile(rb"[A-Za-z0-9_.~+/=-]+")
_EQUALS = r"[ \t]{0,8}[:=][ \t]{0,8}"
_SCHEME = r"(?:(?i:bearer|basic|token)[ \t]{1,4})?"
_HEADERS = ("authorization", "modal-key", "modal-secret", "x-api-key")
_KEYS = ("api_key", "api-key", "apikey", "access_token", "auth_token", "secret_key", "private_key", "token_secret")
_PASSWORDS = ("password", "passwd", "secret")
_LETTERS_AND_DIGITS = r"(?=(?:[^0-9\s]{0,60}[0-9]){3})[A-Za-z0-9._~+/=-]{12,200}"

_PATTERNS = (
    _Pattern(
        "a private key", (b"-----begin",), re.compile(rb"-----BEGIN (?:[A-Z]{1,12} ){0,3}(?P<value>PRIVATE KEY)-----")
    ),
    _token("a GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{20,255}"),
    _token("a GitHub token", ("github_pat_",), r"[A-Za-z0-9_]{30,255}"),
    _token("a GitLab token", ("glpat-",), r"[A-Za-z0-9_-]{20,64}"),
    _token("a Hugging Face token", ("hf_",), r"[A-Za-z0-9]{20,64}"),
    _token("an API key", ("sk-",), r"(?:(?:proj|ant|svcacct|admin|or)-){0,1}[A-Za-z0-9_]{0,8}-?[A-Za-z0-9]{20,255}"),
    _token("an AWS access key", ("AKIA", "ASIA"), r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("a Google API key", ("AIza",), r"[A-Za-z0-9_-]{35}"),
    _token("a Slack token", ("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-"), r"[A-Za-z0-9-]{10,255}"),
    _token("an npm token", ("npm_",), r"[A-Za-z0-9]{36}"),
    _token("a PyPI token", ("pypi-AgEI",), r"[A-Za-z0-9_-]{20,255}"),
    _token("a Modal token", ("ak-", "as-"), r"(?=[A-Za-z]{0,40}[0-9])[A-Za-z0-9]{10,64}"),
    _token("a Tinker API key", ("tml-",), r"(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{12,255}"),
    _token("an Exchange token", ("rxr_", "rxa_"), r"[A-Za-z0-9_-]{16,255}"),
    _token("a JSON web token", ("eyJ",), r"[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,4096}\."),
    _Pattern(
        "a URL with a password",
        (b"://",),
        re.compile(rb"://[^\s/@:\"'<>]{1,100}:(?P<value>[^\s/@\"'<>]{1,200})@[A-Za-z0-9\[]"),
    ),
    _Pattern(
        "a signed URL",
        (b"x-amz-signature=", b"x-goog-signature=", b"awsaccesskeyid=", b"&sig=", b"?sig="),
        re.compile(rb"[?&]?[A-Za-z-]{1,20}=(?P<value>[A-Za-z0-9%+/=_-]{10,512})"),
    ),
    _quoted("an authorization header", _HEADERS, r"[^\s\"'\\]{8,4096}"),
    _bare("an authorization header", _HEADERS, _LETTERS_AND_DIGITS),
    _bare("an authorization header", ("authorization",), r"(?<=[A-Za-z] )[A-Za-z0-9._~+/=-]{20,4096}"),
    _quoted("an API key", _KEYS, r"[^\s\"'\\]{16,4096}"),
    _bare("an API key", _KEYS, _LETTERS_AND_DIGITS),
    _Pattern(
        "an API key",
        (b"_api_key=", b"_secret="),
        re.compile(rb"_[A-Z_]{6,7}=(?P<value>[A-Za-z0-9_-]{12,255})(?![\w(.\[])"),
    ),
    _quoted("a password", _PASSWORDS, r"(?=[^\"'\s]{0,200}[0-9])[^\s\"'\\]{8,255}"),
    _bare("a password", _PASSWORDS, _LETTERS_AND_DIGITS),
)

_FEW_BYTES = 4096
"""Searching these as they are is quicker than telling their words apart."""
_BLOCK_BYTES = 256 * 1024
_LITERALS = {literal.decode(): literal for pattern in _PATTERNS for literal in pattern.literals}
_IN_WORDS = frozenset(byte for literal in _LITERALS.values() for byte in literal)
_WORDS = bytes(byte if byte in _IN_WORDS or byte == ord("\n") else ord(" ") for byte in bytes(range(256)).lower())
"""For `bytes.translate`: what is in no literal separates words. Lines stay, for files that repeat whole ones."""

_REFERENCE = re.compile(
    rb"^(?:[$%{<\[]|(?:your|my)[-_ ]|(?:x+|\*+|placeholder|example|changeme|dummy|password|pass|pw|secret|token)$)"
    rb"|(?-i:^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$)"
    rb"|\*\*\*|\.\.\.|\xe2\x80\xa6|environ|getenv|redacted",
    re.IGNORECASE,
)
"""A value that only stands for a secret: `$TOKEN`, `{token}`, `<your key>`, `MODAL_PROXY_TOKEN_ID`, `***`."""

_CREDENTIAL_FILE = re.compile(
    r"(.*\.)?env(\.(local|prod|production|dev|development|test|staging))?|\.?credentials?(\.(json|ya?ml|toml|ini|txt))?"
    r"|\.?(netrc|pypirc|npmrc|git-credentials|htpasswd)|id_(rsa|dsa|ecdsa|ed25519)",
    re.IGNORECASE,
)
