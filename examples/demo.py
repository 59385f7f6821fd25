"""Derender a generate response through the Lambda handler and print the answer.

make demo
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
PATH = "/v1/chat/completions/derender"


def event(body: str) -> dict[str, object]:
    """Return the event that API Gateway's HTTP APIs send for a POST (payload version 2.0)."""
    return {
        "version": "2.0",
        "routeKey": f"POST {PATH}",
        "rawPath": PATH,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "host": "localhost"},
        "requestContext": {
            "http": {"method": "POST", "path": PATH, "sourceIp": "127.0.0.1"},
            "stage": "$default",
        },
        "body": body,
        "isBase64Encoded": False,
    }


def main() -> None:
    # The demo shows the bundled model with default settings, whatever the shell has set.
    for name in [name for name in os.environ if name.startswith("DERENDER_")]:
        del os.environ[name]
    os.environ["DERENDER_LOG_LEVEL"] = "WARNING"
    sys.path.insert(0, str(HERE.parent / "handlers"))
    from api import handler

    body = (HERE / "chat.json").read_text(encoding="utf-8")
    response = handler(event(body), None)
    answer = json.loads(response["body"])
    console = Console(highlight=False, width=max(shutil.get_terminal_size().columns, 110))

    token_ids = json.loads(body)["generate_response"]["choices"][0]["token_ids"]
    console.print(f"[bold]in[/]   token ids {token_ids}\n")
    choice = answer["choices"][0]
    logprobs = choice["logprobs"]
    choice["logprobs"] = {"content": [f"… {len(logprobs['content'])} tokens, in the table below"]}
    console.print(f"[bold]out[/]  HTTP {response['statusCode']}")
    console.print_json(json.dumps(answer, ensure_ascii=False))

    table = Table(title="token probabilities", title_justify="left", header_style="bold")
    for column in ("token", "bytes", "probability", "", "other candidates"):
        table.add_column(column, justify="right" if column == "probability" else "left", no_wrap=True)
    for entry in logprobs["content"]:
        probability = math.exp(entry["logprob"])
        others = entry["top_logprobs"][1:]
        table.add_row(
            repr(entry["token"]),
            " ".join(f"{byte:02x}" for byte in entry["bytes"]),
            f"{probability:.1%}",
            "█" * round(probability * 10),
            "  ".join(f"{other['token']!r} {math.exp(other['logprob']):.1%}" for other in others),
        )
    console.print(table)


if __name__ == "__main__":
    main()
