"""What a server is started with: the file, the options that win over it, and one sentence for each thing wrong."""

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from spindle.cli.console import UsageProblemError
from spindle.cli.kinds import KINDS, Model
from spindle.cli.settings import OPTIONS, Settings, in_force, load
from spindle.control.limits import Limits

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "spindle-config.md"
EVERYTHING = """
models = ["org/installed", "org/local=models/local"]
host = "0.0.0.0"
port = 9000
public_url = "https://spindle.example/base"
data = "data"
device = "cuda:1"
dtype = "bfloat16"
threads = 3
plugins = ["trimuon.py"]
grace = 2.5

[limits]
models = 5
checkpoint_bytes = 1_000_000

[keys]
alice = "tml-alice-alice"
bob = "tml-bob-bob-bob"
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "spindle.toml"
    file.write_text(text)
    return file


def test_without_anything_said_the_defaults_hold() -> None:
    assert load(None, {"port": None, "models": None}) == Settings()


def test_a_file_gives_every_setting_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    settings = load(written(tmp_path, EVERYTHING), {})
    assert settings == Settings(
        models=(Model("org/installed", None), Model("org/local", tmp_path / "models" / "local")),
        host="0.0.0.0",
        port=9000,
        public_url="https://spindle.example/base",
        data=tmp_path / "data",
        device="cuda:1",
        dtype="bfloat16",
        threads=3,
        plugins=(tmp_path / "trimuon.py",),
        grace=2.5,
        limits=Limits(models=5, checkpoint_bytes=1_000_000),
        keys={"alice": "tml-alice-alice", "bob": "tml-bob-bob-bob"},
    )


def test_every_option_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.toml").write_text('carol = "tml-carol-carol"')
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    options: dict[str, Any] = {
        "models": ["org/other=here"],
        "host": "::1",
        "port": 0,
        "public_url": "http://other.example",
        "data": "my-data",
        "device": "cpu",
        "dtype": "float32",
        "threads": 1,
        "plugins": ["mine.py"],
        "grace": 0,
        "limits": ["models=6", "sessions=7"],
        "keys_file": "keys.toml",
    }
    assert set(options) == set(OPTIONS)
    assert load(written(folder, EVERYTHING), options) == Settings(
        models=(Model("org/other", tmp_path / "here"),),
        host="::1",
        port=0,
        public_url="http://other.example",
        data=tmp_path / "my-data",
        device="cpu",
        dtype="float32",
        threads=1,
        plugins=(tmp_path / "mine.py",),
        grace=0,
        limits=Limits(models=6, sessions=7, checkpoint_bytes=1_000_000),
        keys={"carol": "tml-carol-carol"},
        keys_file=tmp_path / "keys.toml",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prot = 1", "'prot' is no setting; did you mean port?"),
        ("colour = 1", "'colour' is no setting; there is models, host, port,"),
        ("port = '8250'", "port must be a whole number from 0 to 65535, found '8250'."),
        ("port = 70000", "port must be a whole number from 0 to 65535, found 70000."),
        ("port = true", "port must be a whole number from 0 to 65535, found True."),
        ("threads = 0", "threads must be a whole number from 1, found 0."),
        ("models = 'org/name'", "models must be a list of NAME or NAME=PATH, found 'org/name'."),
        ("models = ['=path']", "models must be a list of NAME or NAME=PATH, found ['=path']."),
        ("[models]\na = 'b'", "models must be a list of NAME or NAME=PATH, found a table."),
        ("models = ['a', 'a=b']", "The model a is named twice"),
        ("device = 'gpu'", "device must be auto, cpu, cuda or cuda:N, found 'gpu'."),
        ("dtype = 'int8'", "dtype must be auto, float32 or bfloat16, found 'int8'."),
        ("public_url = 'spindle.example'", "public_url must be an http or https address, found 'spindle.example'."),
        ("grace = -1", "grace must be a number of seconds from 0, found -1."),
        ("grace = nan", "grace must be a number of seconds from 0, found nan."),
        ("limits = 3", "limits must be a table, found 3."),
        ("[limits]\nmodel = 3", "'model' is no limit; did you mean models?"),
        ("[limits]\nmodels = 0", "limits.models must be a whole number from 1, found 0."),
        ("keys = 'tml-secret-secret'", "keys must be a table, found a value of type str."),
        ("[keys]\nbob = 'hunter2'", "keys.bob must be text that starts with tml-"),
        ("[keys]\na = 'tml-same-same'\nb = 'tml-same-same'", "keys.b is the key of a too"),
        ("keys_file = 'k.toml'\n[keys]\na = 'tml-same-same'", "keys and keys_file exclude each other"),
        ("keys_file = 'nowhere.toml'", "nowhere.toml cannot be read (No such file or directory)"),
        ("port = ", "is not TOML: "),
        ("host = ''", "host must be an address, found ''."),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence_that_names_it_and_shows_no_key(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(UsageProblemError) as problem:
        load(file, {})
    said = str(problem.value)
    assert sentence in said
    assert "named twice" in said or str(tmp_path) in said
    assert "\n" not in said
    assert not re.search("secret|hunter2|same", said)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"port": 70000}, "--port must be a whole number from 0 to 65535, found 70000."),
        ({"device": "tpu"}, "--device must be auto, cpu, cuda or cuda:N, found 'tpu'."),
        ({"public_url": "x"}, "--public-url must be an http or https address, found 'x'."),
        ({"models": ["a="]}, "--model must be a list of NAME or NAME=PATH, found ['a=']."),
        ({"limits": ["models=many"]}, "--limit models must be a whole number from 1, found 'many'."),
        ({"limits": ["models"]}, "--limit models must be a whole number from 1, found ''."),
        ({"limits": ["sesions=3"]}, "'sesions' is no limit; did you mean sessions?"),
        ({"keys_file": "/nowhere/keys.toml"}, "/nowhere/keys.toml cannot be read"),
    ],
)
def test_an_option_that_cannot_be_used(options: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises(UsageProblemError) as problem:
        load(None, options)
    assert sentence in str(problem.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "spindle.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageProblemError, match=r"spindle\.toml (cannot be read \(No such file|is not text in UTF-8)"):
        load(file, {})


def test_what_is_in_force_is_a_file_that_gives_the_same_but_for_the_keys(tmp_path: Path) -> None:
    settings = load(written(tmp_path, EVERYTHING), {})
    shown = in_force(settings)
    assert "tml-alice" not in shown
    again = load(
        written(
            tmp_path,
            shown.replace('alice = "tml-***"', 'alice = "tml-alice-alice"').replace(
                'bob = "tml-***"', 'bob = "tml-bob-bob-bob"'
            ),
        ),
        {},
    )
    assert again == settings


def test_the_page_names_every_setting_with_what_it_takes_its_option_and_its_default() -> None:
    rows = table(PAGE.read_text(), "## Settings")
    assert {name: row[:3] for name, row in rows.items()} == {
        name: [kind.expected, default(name, rows[name][1]), f"`{OPTIONS[name]}`" if name in OPTIONS else "none"]
        for name, kind in KINDS.items()
    }


def test_the_page_names_every_limit_with_its_default() -> None:
    rows = table(PAGE.read_text(), "## Limits")
    expected = {limit.name: "none" if limit.default is None else f"`{limit.default}`" for limit in fields(Limits)}
    assert {name: row[0] for name, row in rows.items()} == expected


def table(page: str, heading: str) -> dict[str, list[str]]:
    """The cells after the first of each row, by the name in the first, of the table below a heading."""
    section = page.partition(f"{heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {name.strip("`"): cells for name, *cells in lines}


def default(name: str, said: str) -> str:
    """The default as the page must give it; what is made out at the start may be put in words."""
    value = getattr(Settings(), name)
    if isinstance(value, str | int | float):
        return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
    assert not value or name == "limits"
    return said
