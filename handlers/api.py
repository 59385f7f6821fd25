"""The function behind API Gateway and function URLs: events → the application → responses."""

import gc

# What start-up makes stays for good, so nothing is collected until it is done, and it is never looked at again.
gc.disable()

import os  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

from mangum import Mangum  # noqa: E402

from derender.http.app import create_app  # noqa: E402
from derender.models.layer import load_models  # noqa: E402
from derender.settings import Settings, SettingsError  # noqa: E402
from derender.telemetry.observation import Observation  # noqa: E402
from lambda_runtime.payload import answer_event, unfailing, writes_ascii  # noqa: E402
from observability import Observer, as_returned, begin_invocation, configure_logging  # noqa: E402

try:
    configure_logging("api")
    settings = Settings.from_environment(os.environ)
    models = load_models(settings)
except SettingsError as error:
    sys.exit(f"derender: {error}")

observe = Observer("api")
observed: list[Observation] = []
app = create_app(models, max_body_bytes=settings.max_body_bytes, observe=observed.append)
adapter = Mangum(app, lifespan="off")
ascii_only = writes_ascii(os.environ)


@unfailing
def handler(event: object, context: object) -> dict[str, Any]:
    """Answer an event."""
    begin_invocation(event, context)
    observed.clear()
    response = answer_event(adapter, event, context, ascii_only=ascii_only)
    for observation in observed:
        observe(as_returned(observation, response))
    return response


gc.freeze()
gc.enable()
