"""Stand-ins for the Hugging Face Hub and for a vLLM server that has a tokenizer."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from tokenizers import Tokenizer

Answer = tuple[int, dict[str, str], bytes]


@contextmanager
def serve(
    answer: Callable[[str, str, bytes], Answer], received: list[Mapping[str, str]] | None = None
) -> Iterator[str]:
    """Serve what a function answers to a method, path and body. Yields the URL.

    Args:
        answer: The function.
        received: Collects the headers of each request.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        """Send an answer at once: the second of two parts would wait for the first to be acknowledged."""

        def _answer(self) -> None:
            if received is not None:
                received.append({name.lower(): value for name, value in self.headers.items()})
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, headers, content = answer(self.command, self.path, body)
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_POST = _answer  # noqa: N815 - names of the base class

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - name of the base class
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def hub(repository: str, commit: str, contents: Mapping[str, bytes], asked: list[str]) -> Callable[..., Answer]:
    """Answer as the Hub does, with one repository of one commit. `asked` collects the downloaded files."""

    def answer(method: str, path: str, body: bytes) -> Answer:  # noqa: ARG001
        path = path.partition("?")[0]
        info = f"/api/models/{repository}"
        if path in (info, f"{info}/revision/main", f"{info}/revision/{commit}"):
            files = [{"rfilename": name} for name in contents]
            return 200, {}, json.dumps({"id": repository, "sha": commit, "siblings": files}).encode()
        if path.startswith(info):
            return 404, {"x-error-code": "RevisionNotFound"}, b"{}"
        if path.startswith("/api/models/gated/"):
            return 403, {"x-error-code": "GatedRepo"}, b"{}"
        name = path.removeprefix(f"/{repository}/resolve/{commit}/")
        if name not in contents:
            return 404, {"x-error-code": "RepoNotFound"}, b"{}"
        if method == "GET":
            asked.append(name)
        etag = hashlib.sha1(contents[name], usedforsecurity=False).hexdigest()
        return 200, {"etag": f'"{etag}"', "x-repo-commit": commit}, contents[name]

    return answer


def vllm(
    tokenizer: Tokenizer,
    *,
    name: str = "served",
    max_model_len: int = 1000,
    absent: tuple[str, ...] = (),
    hidden: Collection[int] = (),
    change: Callable[[list[int], str], str] = lambda _, text: text,
) -> Callable[..., Answer]:
    """Answer as a vLLM server with a tokenizer does.

    Args:
        tokenizer: The tokenizer.
        name: The name of the model.
        max_model_len: The longest sequence.
        absent: Paths of missing endpoints.
        hidden: More ids that are special.
        change: Changes the text of ids.
    """

    def answer(method: str, path: str, body: bytes) -> Answer:
        if path in absent:
            return 404, {}, b'{"detail": "Not Found"}'
        if method == "GET":
            return _json({"data": [{"id": name, "max_model_len": max_model_len}]})
        request = json.loads(body)
        if request.get("model", name) != name:
            return 404, {}, b'{"error": {"message": "The model does not exist"}}'
        if path == "/tokenize":
            ids = tokenizer.encode(request["prompt"], add_special_tokens=request["add_special_tokens"]).ids
            return _json({"tokens": ids, "count": len(ids), "max_model_len": max_model_len, "token_strs": None})
        if path == "/v1/completions/derender":
            (response,) = request["generate_responses"]
            choices = [
                {
                    "index": each["index"],
                    "text": tokenizer.decode([id_ for id_ in each["token_ids"] if id_ not in hidden]),
                }
                for each in response["choices"]
            ]
            return _json({"choices": choices[::-1]})
        ids = request["tokens"]
        return _json({"prompt": change(ids, tokenizer.decode(ids, skip_special_tokens=False))})

    return answer


def _json(value: Any) -> Answer:
    return 200, {"content-type": "application/json"}, json.dumps(value).encode()
