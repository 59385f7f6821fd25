"""Usage of complete answers: what the request says, the generate server counted, and the ids that came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.answers.usage import add_usages, count_usage
from derender.protocol.generate import GenerateResponse
from derender.protocol.openai.usage import Usage
from tests.support.api_client import CHAT, COMPLETIONS, generated
from tests.support.vocabularies import B
from tests.support.work import growth

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.api_client import Client

HELLO, WORLD = int(B.HELLO), int(B.WORLD)
COUNTED: Final = {
    "prompt_tokens": 9,
    "completion_tokens": 2,
    "total_tokens": 11,
    "prompt_tokens_details": {"cached_tokens": 8},
    "completion_tokens_details": None,
}


def ask(client: Client, path: str, responses: list[dict[str, Any]], prompts: list[int] | None) -> Any:
    if path == CHAT:
        (response,) = responses
        body: dict[str, Any] = {"generate_response": response, "prompt_tokens": prompts and prompts[0]}
    else:
        body = {"generate_responses": responses, "prompt_tokens": prompts}
    answer = client.post(path, body)
    assert answer.status == 200
    return answer.json["usage"]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize(
    ("prompt_tokens", "fields", "expected"),
    [
        pytest.param(None, {}, (0, 2), id="nothing"),
        pytest.param(7, {"usage": COUNTED, "prompt_token_ids": [HELLO]}, (7, 2), id="the request first"),
        pytest.param(0, {"usage": COUNTED}, (0, 2), id="the request, if it says 0"),
        pytest.param(None, {"usage": COUNTED, "prompt_token_ids": [HELLO]}, (9, 2), id="then its usage"),
        pytest.param(None, {"usage": {}, "prompt_token_ids": [HELLO] * 3}, (3, 2), id="then its prompt"),
        pytest.param(None, {"usage": {"completion_tokens": None}}, (0, 2), id="not counted"),
        pytest.param(None, {"usage": {"completion_tokens": 1}}, (0, 2), id="fewer than came"),
        pytest.param(None, {"usage": {"completion_tokens": 5}}, (0, 5), id="more than came"),
    ],
)
def test_usage_is_what_is_known(
    client: Client, path: str, prompt_tokens: int | None, fields: dict[str, Any], expected: tuple[int, int]
) -> None:
    prompts = None if prompt_tokens is None else [prompt_tokens]
    usage = ask(client, path, [{**generated([HELLO, WORLD]), **fields}], prompts)
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == expected
    assert usage["total_tokens"] == sum(expected)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_details_are_passed_on(client: Client, path: str) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 1, "x": [1]}, "completion_tokens_details": {"y": 2.5}}
    usage = ask(client, path, [{**generated([HELLO]), "usage": details}], None)
    assert {name: usage[name] for name in details} == details


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("name", ["prompt_tokens_details", "completion_tokens_details"])
def test_details_that_cannot_be_written_are_refused(client: Client, path: str, name: str) -> None:
    response = {**generated([HELLO]), "usage": {name: {"a": 2**64}}}
    field = "generate_response" if path == CHAT else "generate_responses"
    answer = client.post(path, {field: response if path == CHAT else [response]})
    assert (answer.status, answer.error["type"]) == (400, "BadRequestError")
    assert answer.error["param"].endswith(f".usage.{name}")


def test_usages_of_several_prompts_are_added_up(client: Client) -> None:
    first, second = {**generated([HELLO]), "usage": COUNTED}, {**generated([HELLO]), "usage": COUNTED}
    third = {**generated([HELLO]), "prompt_token_ids": [HELLO]}
    assert ask(client, COMPLETIONS, [first, second, third], None) == {
        "prompt_tokens": 19,
        "completion_tokens": 5,
        "total_tokens": 24,
        "prompt_tokens_details": {"cached_tokens": 16},
        "completion_tokens_details": None,
    }


@pytest.mark.parametrize(
    ("details", "added"),
    [
        ([None, None], None),
        ([{}, {}], None),
        ([{"a": 1}, None, {"a": 2, "b": 3}], {"a": 3, "b": 3}),
        ([{"a": {"image": 1}}, {"a": {"image": 2, "audio": 3}}], {"a": {"image": 3, "audio": 3}}),
        ([{"a": 1}, {"a": {"image": 2}}, {"a": 1}], {"a": {"image": 2}}),
        ([{"a": None, "b": "x", "c": 1.5, "d": True, "e": -1, "f": [1]}, {"a": 1}], {"a": 1}),
        ([{"a": 2**63, "b": 2**48}, {"a": 1, "b": 2**48}], {"a": 1, "b": 2**49}),
        ([[], 3], None),
    ],
)
def test_numbers_in_details_are_added_up(details: list[Any], added: Any) -> None:
    usages = [
        Usage(prompt_tokens=1, total_tokens=1, completion_tokens=0, prompt_tokens_details=each)
        for each in details
    ]
    assert add_usages(usages).prompt_tokens_details == added


@pytest.mark.parametrize("depth", [0, 20])
def test_the_work_of_adding_up_is_linear_in_the_details(depth: int) -> None:
    def prepare(count: int) -> Callable[[], object]:
        usages = []
        for number in range(count):
            details: dict[str, Any] = {f"n{number}": 1}
            for _ in range(depth):
                details = {"in": details}
            usages.append(
                Usage(prompt_tokens=1, total_tokens=1, completion_tokens=0, prompt_tokens_details=details)
            )
        return lambda: add_usages(usages)

    assert max(growth([20, 40, 80], prepare)) < 2.1


def test_a_single_usage_is_not_changed() -> None:
    usage = count_usage(None, GenerateResponse.model_validate({**generated([1]), "usage": COUNTED}))
    assert add_usages([usage]) is usage
