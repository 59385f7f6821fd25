"""Text that no client may see, and faults in any function whose messages are full of it."""

from __future__ import annotations

import gc
import inspect
import re
import sysconfig
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from itertools import groupby
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from derender import errors

from .paths import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from pathlib import Path

__all__ = ["CANARY", "MESSAGE", "SECRETS", "Provoked", "every_function", "leaks", "provoke"]

CANARY: Final = "quixotic-marmalade"
SECRETS: Final = {
    name: f"{CANARY}-{number}"
    for number, name in enumerate(
        (
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_LAMBDA_FUNCTION_NAME",
            "AWS_LAMBDA_LOG_GROUP_NAME",
            "AWS_LAMBDA_LOG_STREAM_NAME",
            "AWS_REGION",
            "DERENDER_SERVICE",
            "DERENDER_STATE_KEY",
            "GPU_TOKEN",
            "HOME",
            "LAMBDA_TASKROOT",
        )
    )
}
"""Environment variables that no client may see."""

_PLACES: Final = (
    str(ROOT),
    sysconfig.get_path("purelib"),
    sysconfig.get_path("stdlib"),
    "/opt/tokenizer",
    "/var/task",
    "site-packages",
)
_TRACES: Final = ("Traceback", 'File "', "File '", ".py", "object at 0x", "line 1, in ")
_ERRORS: Final = re.compile(r"\b(?:[A-Z]\w*)?(?:Error|Exception|Warning|Interrupt|Exit)\b")
_TOLD: Final = frozenset(
    {
        *("BadGatewayError", "BadRequestError", "GatewayTimeoutError", "InternalServerError", "NotFoundError"),
        *("MethodNotAllowedError", "RateLimitError", "RequestTooLargeError", "ResponseTooLargeError"),
        *("ServiceUnavailableError", "UnprocessableEntityError", "UnsupportedMediaTypeError", "Error"),
        *errors.__all__,
    }
)
"""Error types of the envelope, and the names of derender's own exceptions."""

MESSAGE: Final = (
    f'{CANARY} Traceback (most recent call last):\n  File "{ROOT}/handlers/derender/cli.py", line 1, in f\n'
    f"{sysconfig.get_path('purelib')} /var/task/api.py ValueError"
)


def leaks(text: str) -> list[str]:
    """List what a text contains that nobody may see."""
    named = {name for name in _ERRORS.findall(text) if name not in _TOLD}
    return [word for word in (CANARY, *_PLACES, *_TRACES) if word in text] + sorted(named)


class ChimeraError(UnicodeDecodeError, KeyError, AssertionError, RecursionError):
    """An error of many kinds. A handler of any of them catches it."""

    def __init__(self, message: str) -> None:
        super().__init__("utf-8", message.encode(), 0, 1, message)


every_function = pytest.mark.parametrize(
    "every",
    [
        pytest.param(False, id="modules"),
        pytest.param(True, id="functions", marks=pytest.mark.long),
    ],
)
"""Runs a test of faults with a fault in each module, and in the long run with one in each function."""

_RAISED: Final = "what is raised"
"""The constant in the code of a fault that the error replaces."""


class Faulty:
    """Functions that share their code and can be made to raise."""

    def __init__(self, code: CodeType, functions: Iterable[FunctionType]) -> None:
        self.module = code.co_filename
        self.name = f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"
        self._code, self._functions = code, list(functions)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Make the functions raise an error. The error and its cause both have `MESSAGE`."""
        error = ChimeraError(MESSAGE)
        error.__cause__ = OSError(2, MESSAGE, MESSAGE)
        fault = _FAULTS[self._code.co_flags & _KINDS]
        constants = (error if each == _RAISED else each for each in fault.co_consts)
        code = fault.replace(co_consts=(*constants,), co_freevars=self._code.co_freevars)
        for function in self._functions:
            function.__code__ = code
        try:
            yield
        finally:
            for function in self._functions:
                function.__code__ = self._code


def _fault(*_: object, **__: object) -> None:
    error: Any = "what is raised"
    raise error


def _fault_of_generator(*_: object, **__: object) -> Iterator[None]:
    error: Any = "what is raised"
    if error:
        raise error
    yield


async def _fault_of_coroutine(*_: object, **__: object) -> None:
    error: Any = "what is raised"
    raise error


async def _fault_of_async_generator(*_: object, **__: object) -> AsyncIterator[None]:
    error: Any = "what is raised"
    if error:
        raise error
    yield


_KINDS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_FAULTS: Final = {
    fault.__code__.co_flags & _KINDS: fault.__code__
    for fault in (_fault, _fault_of_generator, _fault_of_coroutine, _fault_of_async_generator)
}
"""Kind of function → code that raises. A function's code may only be replaced by code of its kind."""


class Provoked(NamedTuple):
    """What became of faults."""

    leaks: dict[str, list[str]]
    """Function or module → what was told although nobody may see it."""
    internal_errors: int
    """Functions or modules whose fault was answered as an internal error."""


def provoke(
    folders: Iterable[Path], ask: Callable[[], Iterable[str]], *, every: bool, skip: str = "\n"
) -> Provoked:
    """Have functions raise, and look for leaks in the answers meanwhile.

    Args:
        folders: Folders of the functions.
        ask: Asks, and returns the answers.
        every: Whether functions raise one after the other. Otherwise all functions of a module may raise, and
            the first one that is called does.
        skip: End of the name of a function that must not raise.
    """
    found: dict[str, list[str]] = {}
    internal_errors = 0
    functions = [each for each in faulty_functions(folders) if not each.name.endswith(skip)]
    for _, group in groupby(functions, lambda each: each.name if every else each.module):
        raising = list(group)
        with ExitStack() as stack:
            for function in raising:
                stack.enter_context(function.raising())
            answers = list(ask())
        if leaked := sorted({leak for answer in answers for leak in leaks(answer)}):
            found[raising[0].name] = leaked
        internal_errors += any("InternalServerError" in answer for answer in answers)
    return Provoked(found, internal_errors)


def faulty_functions(folders: Iterable[Path]) -> list[Faulty]:
    """Find all functions of some folders, including closures and methods.

    The fault replaces their code, so it does not matter which names other modules have for them.
    """
    places = tuple(map(str, folders))
    gc.unfreeze()  # the garbage collector does not list frozen objects
    found: dict[CodeType, list[FunctionType]] = defaultdict(list)
    for item in gc.get_objects():
        # A dead weak proxy has a type, but answers no question.
        if type(item) is FunctionType and item.__code__.co_filename.startswith(places):
            found[item.__code__].append(item)
    ordered = sorted(found.items(), key=lambda each: (each[0].co_filename, each[0].co_firstlineno))
    return [Faulty(code, functions) for code, functions in ordered]
