"""A function under AWS's own runtime, and the events that it receives.

The runtime interface emulator, which comes with the SAM CLI, starts the function and passes it events. The
runtime client is `awslambdaric`, as on Lambda.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from .api_client import CHAT
from .paths import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Runtime", "http_event"]

INVOCATIONS: Final = "/2015-03-31/functions/function/invocations"
ARCHITECTURES: Final = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "x86_64"}
START_SECONDS: Final = 10
INVOKE_SECONDS: Final = 60
STOP_SECONDS: Final = 5


class Runtime:
    """A running function, as a context manager. Its runtime starts with the first event, as on a cold start.

    Args:
        task: Folder of the function's code, as /var/task on Lambda.
        handler: Module and function.
        environment: The function's environment variables. It inherits none of this process's.
        python: The interpreter. It needs `awslambdaric`.
    """

    def __init__(
        self,
        task: Path = HANDLERS,
        *,
        handler: str = "api.handler",
        environment: Mapping[str, str] | None = None,
        python: Path | str = sys.executable,
    ) -> None:
        self._task = task
        self._command = [str(python), "-m", "awslambdaric", handler]
        self._environment = {
            "LANG": "en_US.UTF-8",
            "PATH": os.defpath,
            "PYTHONDONTWRITEBYTECODE": "1",  # /var/task is read-only
            "PYTHONPATH": str(task),
            "TZ": ":UTC",
            **(environment or {}),
        }

    def __enter__(self) -> Self:
        self._port, api_port = _free_ports(2)
        self._log = tempfile.TemporaryFile()
        addresses = [
            f"--runtime-interface-emulator-address=127.0.0.1:{self._port}",
            f"--runtime-api-address=127.0.0.1:{api_port}",
        ]
        try:
            self._emulator = subprocess.Popen(
                [emulator(), *addresses, *self._command],
                cwd=self._task,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
            )
        except BaseException:
            self._log.close()
            raise
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        runtimes = list(_children(self._emulator.pid))
        self._emulator.terminate()
        try:
            self._emulator.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._emulator.kill()
            self._emulator.wait()
        for pid in runtimes:
            # The runtime has a process group of its own and rarely outlives the emulator.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._log.close()

    @property
    def logs(self) -> str:
        """The output of the emulator and the function so far."""
        return os.pread(self._log.fileno(), 1 << 24, 0).decode(errors="replace")

    @property
    def pid(self) -> int:
        """The process that runs the function. It exists after the first event."""
        (pid,) = _children(self._emulator.pid)
        return pid

    def invoke(self, event: object) -> Any:
        """Send an event and return what the function returns, or the error that the runtime reports."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=INVOKE_SECONDS)
        try:
            connection.request("POST", INVOCATIONS, json.dumps(event))
            return json.loads(connection.getresponse().read())
        except (OSError, HTTPException, ValueError) as error:
            raise RuntimeError(f"the function did not answer: {error!r}\n{self.logs}") from error
        finally:
            connection.close()

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._emulator.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            time.sleep(0.002)
        raise RuntimeError(f"the runtime interface emulator did not start\n{self.logs}")


def emulator() -> Path:
    """Return the path of the runtime interface emulator for this machine.

    Raises:
        RuntimeError: The emulator is not installed.
    """
    spec = importlib.util.find_spec("samcli")
    if spec is None or spec.origin is None:
        raise RuntimeError("aws-sam-cli, which contains the runtime interface emulator, is not installed")
    name = f"aws-lambda-rie-{ARCHITECTURES.get(platform.machine(), platform.machine())}"
    path = Path(spec.origin).parent / "local" / "rapid" / name
    if not path.is_file():
        raise RuntimeError(f"aws-sam-cli contains no {name}")
    return path


def http_event(
    path: str = CHAT,
    body: str | None = None,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    base64: bool = False,
) -> dict[str, Any]:
    """Return the event that an HTTP API sends for its $default route (payload format 2.0)."""
    domain = "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com"
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {
            "accept": "*/*",
            "content-length": str(len(body or "")),
            "content-type": "application/json",
            "host": domain,
            "user-agent": "curl/8.7.1",
            "x-amzn-trace-id": "Root=1-6745c2a1-0f1e2d3c4b5a69788796a5b4",
            "x-forwarded-for": "192.0.2.1",
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
            **(headers or {}),
        },
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "a1b2c3d4e5",
            "domainName": domain,
            "domainPrefix": "a1b2c3d4e5",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "curl/8.7.1",
            },
            "requestId": "B0b1C2d3E4f5g6=",
            "routeKey": "$default",
            "stage": "$default",
            "time": "26/Nov/2026:12:00:00 +0000",
            "timeEpoch": 1795694400000,
        },
        "isBase64Encoded": base64,
    }
    if body is not None:
        event["body"] = body
    return event


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [bound.getsockname()[1] for bound in sockets]


def _children(parent: int) -> Iterator[int]:
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The process name comes first, in parentheses, and may contain anything.
            if int(status.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(status.parent.name)
