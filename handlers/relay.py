"""The relay function: a local HTTP server that streams answers while generate servers generate.

On Lambda it runs behind the Lambda Web Adapter, which streams its responses.
"""

from lambda_runtime.boot import start  # before all others: it turns the garbage collector off

# isort: split
import os

import uvicorn

from derender.relay import read_relay_settings
from derender.relay.app import create_relay_app
from derender.settings import SettingsError
from derender.telemetry.observer import Observer
from lambda_runtime.web_adapter import WebAdapter, read_port

with start("relay") as (settings, models):
    port = read_port(os.environ)
    relay = read_relay_settings(settings, os.environ)
    if relay is None:
        raise SettingsError("DERENDER_UPSTREAMS is not set: the relay has no server to ask")
    app = WebAdapter(
        create_relay_app(
            models,
            relay,
            max_body_bytes=settings.max_body_bytes,
            allowed_origins=settings.allowed_origins,
            observe=Observer("relay"),
        )
    )

if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        log_config=None,  # log lines are those of all functions
        log_level="warning",
        access_log=False,
        timeout_keep_alive=3600,  # the adapter keeps its connection while Lambda freezes the process
    )
