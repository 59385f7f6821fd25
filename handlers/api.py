"""The api function: answers HTTP events of API Gateway and function URLs."""

from lambda_runtime.boot import start  # before all others: it turns the garbage collector off

# isort: split
from derender.http.app import create_app
from derender.telemetry.observer import Observer
from lambda_runtime.http_handler import HttpHandler

with start("api") as (settings, models):
    handler = HttpHandler(
        lambda observe: create_app(
            models,
            max_body_bytes=settings.max_body_bytes,
            allowed_origins=settings.allowed_origins,
            observe=observe,
        ),
        Observer("api"),
    )
