"""GSM8K from local files, from the real data where it lies beside the repository, and over the hub's own protocol."""

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow
import pytest
from pyarrow import parquet

from research_exchange.harness import gsm8k
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.grading import exact_match

REAL = Path(__file__).parents[4] / "shared" / "data" / "gsm8k"
ROWS = [
    {"question": "What is 1 + 1?", "answer": "1 + 1 = <<1+1=2>>2\n#### 2"},
    {"question": "And 1000 · 1.5 − 3000?", "answer": "It is less.\n#### -1,500"},
]
COMMIT = "c" * 40


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def parquet_file(path: Path, rows: list[dict[str, Any]]) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_real_data(split: gsm8k.Split) -> None:
    if not REAL.is_dir():
        pytest.skip("GSM8K does not lie beside the repository, in ../shared/data/gsm8k")
    loaded = gsm8k.load(split, REAL)
    assert len(loaded.items) == gsm8k.SIZES[split]
    assert len({item.id for item in loaded.items}) == len(loaded.items)
    raw = [json.loads(line) for line in (REAL / f"{split}.jsonl").read_text().splitlines()]
    for item, row in zip(loaded.items, raw, strict=True):
        assert item.question == row["question"]
        assert item.reference == row["answer"].rpartition("#### ")[2].replace(",", "")
        assert exact_match(row["answer"], item.reference), "the published solution is graded as right"


def test_json_lines_in_a_folder_or_by_name(tmp_path: Path) -> None:
    file = tmp_path / "test.jsonl"
    file.write_text(lines(ROWS))
    loaded = gsm8k.load("test", tmp_path)
    assert [(item.id, item.reference) for item in loaded.items] == [("gsm8k-test-0", "2"), ("gsm8k-test-1", "-1500")]
    assert loaded.items[1].question == ROWS[1]["question"]
    assert loaded.record() == {
        "name": "gsm8k",
        "split": "test",
        "source": "test.jsonl",
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "n_examples": 2,
    }
    assert gsm8k.load("test", file) == loaded


def test_parquet_holds_the_same_problems(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    file = parquet_file(tmp_path / "main" / "train-00000-of-00001.parquet", ROWS)
    loaded = gsm8k.load("train", tmp_path)
    (tmp_path / "train.jsonl").write_text(lines(ROWS))
    assert loaded.items == gsm8k.load("train", tmp_path).items
    assert loaded.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("test.jsonl", b"{", "line 1 is not JSON"),
        ("test.jsonl", lines([ROWS[0], {"question": "?"}]).encode(), "row 2 has no question and answer"),
        ("test.jsonl", lines([{"question": "?", "answer": "5"}]).encode(), "row 1 has no number after ####"),
        ("test.jsonl", b"[]", "row 1 has no question and answer"),
        ("test.parquet", b"PAR1 and nothing else", "damaged Parquet file"),
        ("other.jsonl", b"", "holds no test.jsonl"),
    ],
)
def test_what_is_not_gsm8k_is_refused_in_a_sentence(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HarnessError, match=sentence):
        gsm8k.load("test", tmp_path)


def test_two_copies_are_not_chosen_between(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test.jsonl").write_text(lines(ROWS))
    with pytest.raises(HarnessError, match="holds 2 files"):
        gsm8k.load("test", tmp_path)


class Hub(http.server.BaseHTTPRequestHandler):
    """The two requests that a download from the hub makes."""

    content: ClassVar[bytes] = b""

    def do_HEAD(self) -> None:
        known = self.path.startswith("/datasets/openai/gsm8k/resolve/") and self.path.endswith(
            "/main/test-00000-of-00001.parquet"
        )
        self.send_response(200 if known else 404)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha256(self.content).hexdigest()}"')
        self.send_header("Content-Length", str(len(self.content) if known else 0))
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(self.content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def hub(content: bytes) -> Iterator[str]:
    handler = type("FilledHub", (Hub,), {"content": content})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


DOWNLOAD = """
import json, sys
from research_exchange.harness import gsm8k
from research_exchange.harness.errors import HarnessError
for split in ("test", "train"):
    try:
        print(json.dumps(gsm8k.load(split).record()))
    except HarnessError as error:
        print(error)
"""


def test_the_hub_is_asked_and_its_commit_is_on_record(tmp_path: Path) -> None:
    content = parquet_file(tmp_path / "rows.parquet", ROWS).read_bytes()
    with hub(content) as endpoint:
        environment = os.environ | {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1"}
        environment = {name: value for name, value in environment.items() if name not in ("HF_HUB_CACHE", "HF_TOKEN")}
        done = subprocess.run(
            [sys.executable, "-c", DOWNLOAD], capture_output=True, text=True, env=environment, timeout=120, check=False
        )
    found, refused = done.stdout.splitlines() or [done.stderr, ""]
    assert json.loads(found) == {
        "name": "gsm8k",
        "split": "test",
        "source": f"openai/gsm8k@{COMMIT}/main/test-00000-of-00001.parquet",
        "sha256": hashlib.sha256(content).hexdigest(),
        "n_examples": 2,
    }
    assert refused.startswith("openai/gsm8k could not be downloaded"), "the hub has no such split"
