"""The batch function: a step of a job, as the state machine asks for it."""

import gc

# As in api.py: what start-up makes stays for good.
gc.disable()

import os  # noqa: E402
import sys  # noqa: E402
from typing import Any, Final, Protocol  # noqa: E402

from msgspec.structs import asdict  # noqa: E402

from derender.batch import Worker, run_step  # noqa: E402
from derender.batch.s3 import connect  # noqa: E402
from derender.models.layer import load_models  # noqa: E402
from derender.settings import Settings, SettingsError  # noqa: E402
from observability import begin_invocation, configure_logging, observe_batch  # noqa: E402

SPARE_MILLISECONDS: Final = 60_000
"""What is left of an invocation when no other piece is begun. One takes seconds."""


class Context(Protocol):
    """What Lambda says of an invocation."""

    def get_remaining_time_in_millis(self) -> int:
        """How long it may still take."""


try:
    configure_logging("batch")
    settings = Settings.from_environment(os.environ)
    models = load_models(settings)
except SettingsError as error:
    sys.exit(f"derender: {error}")

store = connect()
worker = Worker(
    store,
    models,
    max_body_bytes=settings.max_body_bytes,
    max_sequences=settings.max_sequences,
    references=lambda: store,
)


def handler(event: object, context: Context) -> dict[str, Any]:
    """Do a step of a job (derender/batch/README.md)."""
    begin_invocation(event, context)
    return run_step(
        event,
        worker,
        is_late=lambda: context.get_remaining_time_in_millis() < SPARE_MILLISECONDS,
        observe=lambda counts: observe_batch(asdict(counts)),
    )


gc.freeze()
gc.enable()
