"""The function behind API Gateway and function URLs: events → the application → responses."""

import gc
import os
import sys

from mangum import Mangum

from derender.app import create_app
from derender.settings import Settings, SettingsError, load_model

try:
    settings = Settings.from_environment(os.environ)
    model = load_model(settings)
except SettingsError as error:
    sys.exit(f"derender: {error}")

handler = Mangum(create_app(settings, model), lifespan="off")

# What start-up made stays for good: no collection needs to look at it again.
gc.collect()
gc.freeze()
