"""The relay: a server on this machine that answers while generate servers generate.

On Lambda it runs behind the Lambda Web Adapter, whose invocations stream.
"""

import gc

# As in api.py: what start-up makes stays for good.
gc.disable()

import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Mapping  # noqa: E402

from derender.models.layer import load_models  # noqa: E402
from derender.relay import read_relay  # noqa: E402
from derender.relay.routes import create_relay_app  # noqa: E402
from derender.settings import Settings, SettingsError  # noqa: E402
from observability import Observer, behind_adapter, configure_logging  # noqa: E402


def read_port(environment: Mapping[str, str]) -> int:
    """The port that the Web Adapter forwards to.

    Raises:
        SettingsError: It is none.
    """
    name = "AWS_LWA_PORT" if environment.get("AWS_LWA_PORT") else "PORT"
    text = environment.get(name) or "8080"
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 16:
        raise SettingsError(f"{name} is {text[:100]!r}; it may be a port, from 1 to 65535")
    return int(text)


try:
    configure_logging("relay")
    port = read_port(os.environ)
    settings = Settings.from_environment(os.environ)
    relay = read_relay(settings, os.environ)
    models = load_models(settings)
except SettingsError as error:
    sys.exit(f"derender: {error}")
if relay is None:
    sys.exit("derender: DERENDER_UPSTREAMS is not set: the relay has nobody to ask")

app = behind_adapter(
    create_relay_app(models, relay, max_body_bytes=settings.max_body_bytes, observe=Observer("relay"))
)

gc.freeze()
gc.enable()

if __name__ == "__main__":
    import uvicorn

    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        log_config=None,  # it logs as all others
        log_level="warning",
        access_log=False,
        timeout_keep_alive=3600,  # the adapter keeps its connection while Lambda freezes the process
    )
