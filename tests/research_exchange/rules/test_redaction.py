"""A text without its credentials is still a text: a log is kept, and says where something was taken out (R-169)."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.credentials import find_credential, redact
from tests.research_exchange.rules.support import vectors

EVIDENCE = vectors("evidence")
SECRETS = [case["text"].encode() for case in EVIDENCE["credentials"]]
HARMLESS = [case["text"].encode() for case in EVIDENCE["no_credentials"]]
BODY = b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
KEY = b"-----BEGIN RSA PRIVATE KEY-----\n" + b"\n".join([BODY] * 20) + b"\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("case", EVIDENCE["credentials"], ids=str)
def test_a_credential_is_taken_out_and_the_lines_around_it_stay(case: dict[str, Any]) -> None:
    """R-169"""
    secret = case["text"].encode()
    clean = redact(b"before\n" + secret + b"\n- after -\n")
    assert find_credential(clean) is None
    assert b"[redacted]" in clean
    assert clean.startswith(b"before\n")
    assert clean.endswith(b"\n- after -\n")


@pytest.mark.parametrize("text", HARMLESS, ids=str)
def test_a_text_without_one_is_unchanged(text: bytes) -> None:
    """R-243"""
    assert redact(text) == text


def test_nothing_of_a_private_key_stays() -> None:
    """R-169"""
    assert redact(b"a\n" + KEY + b"\nb: 1\n") == b"a\n[redacted]\nb: 1\n"
    one_line = KEY.replace(b"\n", b"\\n")
    assert redact(b'{"key": "' + one_line + b'"}') == b'{"key": "[redacted]"}'
    assert redact(KEY[:400] + b"\n\nb: 1") == b"[redacted]\n\nb: 1", "cut off before its last line"
    assert (
        redact(KEY.replace(b"-\nMII", b"-\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMII")) == b"[redacted]"
    )


def test_a_token_goes_to_its_last_letter() -> None:
    """R-169"""
    assert redact(b"use hf_" + b"aB3d" * 30 + b" now") == b"use [redacted] now"


def test_known_secrets_go_whatever_they_look_like() -> None:
    """R-169"""
    assert redact(b"the key is plain, plainly", [b"plain"]) == b"the key is [redacted], [redacted]ly"


def test_the_escapes_of_json_hide_no_credential() -> None:
    """R-243: what is shown to a reader is the text that a document means, however its writer spelled it."""
    token = "ghp_" + "a1B2" * 9
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in token)
    document = f'{{"a": "{escaped}", "b": "x?a=1\\u0026sig=abcdefghij%3D", "c": "\\u0022\\u005c\\u00e9"}}'.encode()
    assert find_credential(document) is not None
    assert json.loads(redact(document)) == {"a": "[redacted]", "b": "x?a=1&sig=[redacted]", "c": '"\\é'}
    assert redact(b"\n\\u0067 " + token.encode()) == b"\ng [redacted]"
    backslash_first = document.replace(b'"\\u0067', b'"\\\\u0067').partition(b', "b"')[0] + b"}"
    assert redact(backslash_first) == backslash_first, "a backslash, and then the letters u0067"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*SECRETS, *HARMLESS, KEY, b" ", b"\n", b"password=", b"x"]), max_size=8))
def test_whatever_stands_together_no_credential_is_left(parts: list[bytes]) -> None:
    """R-169"""
    assert find_credential(redact(b"".join(parts))) is None


def test_a_full_log_is_redacted_in_little_time() -> None:
    """R-163: 10 MiB, with a credential in every thousandth line."""
    line = b"step 1 loss 0.125 tokens_per_second 1000.0\n"
    text = (line * 999 + b"token hf_aB3dE5gH7jK9mN1pQ3sT5vW7\n") * (10 * 2**20 // (len(line) * 1000))
    began = time.process_time()
    redact(text)
    assert time.process_time() - began < 5
