"""The function behind API Gateway and function URLs: events → the application → responses."""

import gc

# What start-up makes stays for good, so nothing is collected until it is done, and it is never looked at again.
gc.disable()

import os  # noqa: E402
import sys  # noqa: E402

from mangum import Mangum  # noqa: E402

from derender.app import create_app  # noqa: E402
from derender.layer import load_models  # noqa: E402
from derender.settings import Settings, SettingsError  # noqa: E402

try:
    settings = Settings.from_environment(os.environ)
    models = load_models(settings)
except SettingsError as error:
    sys.exit(f"derender: {error}")

handler = Mangum(create_app(models, max_body_bytes=settings.max_body_bytes), lifespan="off")

gc.freeze()
gc.enable()
