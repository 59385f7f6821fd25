"""Build the application for this machine, serve it with `sam local start-api`, and derender a generation.

    python examples/sam_local.py [--built] [--once] [--port PORT] [flags of sam local start-api]

Serves until Ctrl-C. Needs a container engine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from samcli.local.docker.container_client_factory import ContainerClientFactory  # type: ignore[import-untyped]
from samcli.local.docker.exceptions import ContainerEnforcementException, ContainerNotReachableException  # type: ignore[import-untyped]
from samcli.yamlhelper import yaml_parse  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
SAM: Final = str(Path(sys.executable).with_name("sam"))
ARCHITECTURE: Final = "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"
"""This machine's architecture. Another one would be emulated, if it runs at all."""
PATH: Final = "/v1/chat/completions/derender"
EXAMPLE: Final = {
    "generate_response": {
        "request_id": "cmpl-1",
        "choices": [
            {"index": 0, "token_ids": [9707, 11, 1879, 0, 151645], "finish_reason": "stop"},
        ],
    },
    "prompt_tokens": 7,
    "chat_request": {"messages": [{"role": "user", "content": "Say hello"}]},
}
NO_ENGINE: Final = (
    "No container engine answers, but `sam local` runs functions in containers. Start Docker or Finch, or set "
    "DOCKER_HOST to the socket of Podman, as docs/local.md describes."
)
SERVED: Final = "served.yaml"
"""Name of the templates that are served."""
START_SECONDS: Final = 60
FIRST_ANSWER_SECONDS: Final = 600
"""The first request waits until the base image is downloaded."""


def has_engine() -> bool:
    """Return whether SAM finds a container engine that answers."""
    try:
        ContainerClientFactory.create_client()
    except (ContainerNotReachableException, ContainerEnforcementException):
        return False
    return True


def build(folder: Path) -> None:
    """Build for this machine, in a folder apart from the build that is deployed."""
    command = [
        SAM,
        "build",
        "--build-dir",
        str(folder),
        "--parameter-overrides",
        f"Architecture={ARCHITECTURE}",
    ]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603


def write_served_templates(folder: Path) -> Path:
    """Write the templates to serve beside those that SAM built, and return the path of the application's."""
    template = yaml_parse((folder / "template.yaml").read_text(encoding="utf-8"))
    template["Parameters"]["Architecture"]["Default"] = ARCHITECTURE
    api = template["Resources"]["HttpApi"]["Properties"]["DefinitionBody"]
    # An HTTP API recognizes binary bodies. `sam local` only does if the API names binary media types.
    api["x-amazon-apigateway-binary-media-types"] = ["*/*"]
    for name in ("BatchStack", "RelayStack"):
        properties = template["Resources"][name]["Properties"]
        nested = yaml_parse((folder / properties["TemplateURL"]).read_text(encoding="utf-8"))
        # `sam local` passes neither layers nor empty parameters to nested templates.
        del properties["Parameters"]["TokenizerLayer"], nested["Parameters"]["TokenizerLayer"]
        nested["Resources"]["TokenizerLayer"] = {
            "Type": "AWS::Serverless::LayerVersion",
            "Properties": {"ContentUri": "../TokenizerLayer"},
        }
        for parameter in nested["Parameters"].values():
            parameter.setdefault("Default", "")
        properties["TemplateURL"] = f"{name}/{SERVED}"
        (folder / name / SERVED).write_text(json.dumps(nested), encoding="utf-8")
    # JSON is YAML too.
    (folder / SERVED).write_text(json.dumps({**template, "Outputs": {}}), encoding="utf-8")
    return folder / SERVED


@contextlib.contextmanager
def serve(template: Path, port: int, flags: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run `sam local start-api` and wait until it listens. Its containers are removed at the end.

    Raises:
        RuntimeError: The server does not start.
    """
    command = [SAM, "local", "start-api", "--template", str(template), "--port", str(port)]
    # Start one container per function, at its first request, and keep it.
    command += ["--warm-containers", "LAZY", *flags]
    # In a session of its own it receives one SIGINT; a second would interrupt the removal of its containers.
    server = subprocess.Popen(command, cwd=ROOT, start_new_session=True)  # noqa: S603
    try:
        wait_for(server, port)
        yield server
    finally:
        server.terminate()
        server.wait()


def wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a server listens."""
    end = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"sam local start-api does not listen on port {port}")


def send_example(url: str, console: Console) -> None:
    """Send the example. Print the command that sends it again, and the answer."""
    body = json.dumps(EXAMPLE)
    command = shlex.join(["curl", url + PATH, "-H", "content-type: application/json", "-d", body])
    console.print(f"\n{command}\n", markup=False)
    request = urllib.request.Request(url + PATH, body.encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=FIRST_ANSWER_SECONDS) as response:
        answer = response.read().decode()
    console.print(f"\nHTTP {response.status}")
    console.print_json(answer, ensure_ascii=False)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Serve the application with sam local start-api.", allow_abbrev=False
    )
    parser.add_argument("--built", action="store_true", help="serve the earlier build")
    parser.add_argument("--once", action="store_true", help="stop after the example")
    parser.add_argument("--port", type=int, default=3000, help="port to listen on (%(default)s)")
    parser.add_argument(
        "--build-dir", type=Path, default=ROOT / ".aws-sam" / "local" / "build", help="folder to build in"
    )
    options, flags = parser.parse_known_args()
    options.build_dir = options.build_dir.absolute()
    os.environ.setdefault("SAM_CLI_TELEMETRY", "0")
    # Stop the server and its containers first, whichever signal ends this process.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    console = Console(highlight=False, soft_wrap=True)
    if not has_engine():
        console.print(NO_ENGINE, markup=False)
        return 1
    url = f"http://127.0.0.1:{options.port}"
    try:
        socket.create_server(("127.0.0.1", options.port)).close()
        if not options.built:
            build(options.build_dir)
        with serve(write_served_templates(options.build_dir), options.port, flags) as server:
            send_example(url, console)
            if options.once:
                return 0
            console.print(f"\nServing on {url} until Ctrl-C.")
            return server.wait()
    except KeyboardInterrupt:
        return 0
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        console.print(f"sam-local: {error}", markup=False)
        return 1


if __name__ == "__main__":
    sys.exit(main())
