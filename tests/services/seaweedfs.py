"""SeaweedFS, an S3-compatible store that keeps its objects on disk, takes parts and honours `If-None-Match`."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests.services.missing import not_installed
from tests.services.ports import free_ports

WEED = Path(sys.executable).parent / "weed"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "rx-test", "AWS_SECRET_ACCESS_KEY": "only-for-this-test"}
BUCKET = "evidence"
_LISTENERS = ("master", "volume", "filer", "s3")


class SeaweedFS:
    """One server with one folder; what is in the folder outlives the process."""

    def __init__(self, folder: Path) -> None:
        if not WEED.exists():
            not_installed("SeaweedFS", "make services")
        self._folder = folder
        ports = free_ports(2 * len(_LISTENERS))
        self._http = dict(zip(_LISTENERS, ports, strict=False))
        self._grpc = dict(zip(_LISTENERS, ports[len(_LISTENERS) :], strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = f"http://127.0.0.1:{self._http['s3']}"

    def url(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}?endpoint={self.endpoint}"

    def bucket(self, prefix: str) -> S3Store:
        """The store as another client sees it, without retries."""
        config: Any = {
            "access_key_id": CREDENTIALS["AWS_ACCESS_KEY_ID"],
            "secret_access_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            "region": "us-east-1",
            "endpoint": self.endpoint,
        }
        return S3Store(
            BUCKET, prefix=prefix, config=config, client_options={"allow_http": True}, retry_config={"max_retries": 0}
        )

    def start(self) -> None:
        (self._folder / "data").mkdir(exist_ok=True)
        identity = {
            "name": "rx",
            "credentials": [
                {
                    "accessKey": CREDENTIALS["AWS_ACCESS_KEY_ID"],
                    "secretKey": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
                }
            ],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        config = self._folder / "s3.json"
        config.write_text(json.dumps({"identities": [identity]}))
        addresses = [f"-{name}.port={port}" for name, port in self._http.items()]
        addresses += [f"-{name}.port.grpc={port}" for name, port in self._grpc.items()]
        sockets = [f"-{name}.localSocket={self._folder / name}.sock" for name in ("filer", "s3")]
        options = ["-logtostderr", "server", f"-dir={self._folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        options += ["-filer", "-s3", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0"]
        options += ["-master.electionTimeout=1s", "-master.heartbeatInterval=100ms"]
        options += ["-master.volumeSizeLimitMB=64", "-volume.max=100", *addresses, *sockets]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([WEED, *options], stdout=log, stderr=log)
        self._wait()

    def kill(self) -> None:
        """As a power cut would: it gets to do nothing more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for name, port in self._grpc.items():
            Path(f"/tmp/seaweedfs-{name}-grpc-{port}.sock").unlink(missing_ok=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                obstore.put(self.bucket("started"), "yes", b"yes")
            except (BaseError, FileNotFoundError) as error:
                assert self._process is not None
                assert self._process.poll() is None, f"SeaweedFS ended: see {self._folder / 'log'}"
                assert time.monotonic() < deadline, f"SeaweedFS does not take objects: {error}"
                time.sleep(0.2)
            else:
                return


@contextmanager
def running_seaweedfs(folder: Path) -> Iterator[SeaweedFS]:
    server = SeaweedFS(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
