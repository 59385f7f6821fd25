"""The batch function under the real runtime, with moto's server as S3."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from boto3.session import Session
from moto.server import ThreadedMotoServer

from tests.support.lambda_emulator import Runtime

from .bucket import BUCKET, REGION, S3_ACCESS
from .inputs import HELLO, chat, generated, line

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKER: Final = "quixotic-marmalade"
LINES: Final = [
    *(line(f"{MARKER}-{number}", chat(generated(HELLO * 40))) for number in range(2001)),
    f"{MARKER}\n".encode(),
    line(MARKER, chat(generated([*HELLO, 10**7], metrics=MARKER))),
]
PLAN: Final = {
    "step": "plan",
    "input": f"s3://{BUCKET}/in.jsonl",
    "output": f"s3://{BUCKET}/out/",
    "id": "job-1",
    "started": "2026-01-02T03:04:05.678Z",
}


class Function(NamedTuple):
    """The running function, and a client of S3."""

    runtime: Runtime
    s3: Any

    def objects(self) -> dict[str, bytes]:
        """Return what the function has written."""
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix="out/")["Contents"]
        return {
            each["Key"]: self.s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read() for each in found
        }


@pytest.fixture(scope="module")
def function() -> Iterator[Function]:
    """Run the function with so little time that it does one piece at a time."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    variables = {**S3_ACCESS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    s3 = Session("key", "key", region_name=REGION).client("s3", endpoint_url=variables["AWS_ENDPOINT_URL"])
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=BUCKET, Key="in.jsonl", Body=b"".join(LINES))
    environment = {**variables, "AWS_LAMBDA_FUNCTION_TIMEOUT": "50", "DERENDER_SERVICE": "derender"}
    try:
        with Runtime(handler="batch.handler", environment=environment) as runtime:
            yield Function(runtime, s3)
    finally:
        server.stop()


def test_a_job_runs_step_by_step(function: Function) -> None:
    planned = function.runtime.invoke(PLAN)
    assert planned["parts"] == [0, 1 << 20, 2 << 20]
    reached: list[int] = []
    for start in planned["parts"]:
        place: int | None = start
        while place is not None:
            reached.append(place)
            answer = function.runtime.invoke({"step": "derender", "job": planned["job"], "start": place})
            assert list(answer) == ["next"]
            place = answer["next"]
    finished = function.runtime.invoke({"step": "finish", "job": planned["job"]})
    assert finished["counts"] == {"total": 2003, "completed": 2001, "failed": 2}
    assert finished["manifest"] == f"s3://{BUCKET}/out/job-1/manifest.json"
    objects = function.objects()
    assert [key for key in objects if "/records/" in key] == [
        f"out/job-1/records/{place:015d}.json" for place in sorted(reached)
    ]
    results = b"".join(content for key, content in objects.items() if "/results/" in key).splitlines()
    assert [json.loads(each)["custom_id"] for each in results] == [
        f"{MARKER}-{number}" for number in range(2001)
    ]

    # Log lines count, and repeat nothing of a line.
    logs = function.runtime.logs
    told = [
        json.loads(each) for each in logs.splitlines() if each.startswith("{") and '"message":"batch"' in each
    ]
    assert sum(each["requests"] for each in told) == 2003
    assert sum(each["completion_tokens"] for each in told) == 2001 * len(HELLO) * 40
    assert '"CompletionTokens"' in logs
    for content in (MARKER, "Hello", "9707", "10000000"):
        assert content not in logs


def test_an_impossible_job_ends_with_a_batch_error(function: Function) -> None:
    answer = function.runtime.invoke({**PLAN, "input": f"s3://{BUCKET}/absent.jsonl"})
    assert answer["errorType"] == "BatchError"
    assert answer["errorMessage"] == f"s3://{BUCKET}/absent.jsonl does not exist"
