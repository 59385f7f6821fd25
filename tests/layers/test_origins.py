"""Where tokenizers come from: folders, the Hub, S3."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any

import boto3
import huggingface_hub.constants
import pytest
from huggingface_hub.utils._paths import filter_repo_objects
from moto import mock_aws

from derender.cli import main
from derender.vocabulary import load
from layer_compiler import BuildError
from layer_compiler.building.layer import compile_layer
from layer_compiler.building.models_file import Model
from layer_compiler.errors import OriginError
from layer_compiler.model_files.filenames import wanted
from layer_compiler.sources import s3 as s3_source
from layer_compiler.sources.hub import ALLOWED, IGNORED
from layer_compiler.sources.source import digest_of, kind_of, obtained
from tests.support.small_tokenizers import byte_level_tokenizer, write_folder

from .serving import hub, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPOSITORY = "org/model"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"a": 1}',
    "config.json": b'{"b": 2}',
    "tekken.json": b"[]",
    "mistral_instruct_tokenizer_241114.model.v7m1": b"model",
    "additional_chat_templates/tool_use.jinja": b"template",
}
READ = (
    *(name for name in FILES),
    *(
        "added_tokens.json",
        "generation_config.json",
        "params.json",
        "chat_template.jinja",
        "chat_template.json",
    ),
    *("tekken_240911.json", "qwen.tiktoken", "tiktoken.model", "tokenizer.model", "spiece.model"),
    *(f"tokenizer.model.{version}" for version in ("v1", "v2", "v3", "v7", "v11", "v7m1")),
    *(f"mistral_instruct_tokenizer_240216.model.{version}" for version in ("v2", "v3", "v7", "v7m1")),
)
"""Names of files that formats and the search for parsers read."""
UNWANTED = {
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"weights",
    "tokenization_model.py": b"code",
    "README.md": b"text",
    "original/tokenizer.model": b"another",
    "onnx/config.json": b"another",
    "original/tokenizer.model.v3": b"another",
    "additional_chat_templates/old/tool_use.jinja": b"another",
    "additional_chat_templates/tool_use.py": b"code",
    "additional_chat_templates/config.json": b"another",
}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("tokenizer.json", True),
        ("tokenizer.model.v3", True),
        ("mistral_instruct_tokenizer_240323.model.v3", True),
        ("mistral_instruct_tokenizer_241114.model.v7m1", True),
        ("tokenizer.model.v3.safetensors", False),
        ("additional_chat_templates/tool_use.jinja", True),
        ("additional_chat_templates/../tool_use.jinja", False),
        ("additional_chat_templates/a/tool_use.jinja", False),
        ("additional_chat_templates/..\\tool_use.jinja", False),
        ("additional_chat_templates/tool_use.py", False),
        ("additional_chat_templates/tokenizer.json", False),
        ("qwen.tiktoken", True),
        ("model.safetensors", False),
        ("tokenization.py", False),
        ("../tokenizer.model", False),
        ("..\\tokenizer.model", False),
        ("/etc/tokenizer.model", False),
        ("a\0.model", False),
        ("", False),
    ],
)
def test_only_plain_names_of_tokenizer_files_are_wanted(name: str, read: bool) -> None:
    assert wanted(name) is read


def test_a_source_is_of_one_kind(tmp_path: Path) -> None:
    (tmp_path / "org" / "there").mkdir(parents=True)
    kinds = {
        "s3://bucket/a": "s3",
        "org/there": "folder",
        str(tmp_path): "folder",
        "org/elsewhere": "hub",
        "Qwen/Qwen2.5-7B": "hub",
    }
    assert {source: kind_of(source, tmp_path) for source in kinds} == kinds


@pytest.mark.parametrize("source", ["missing", "./org/name", "/missing/folder", "a/b/c", "org/name@main", ""])
def test_what_is_no_source_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(OriginError, match="no such folder"):
        kind_of(source, tmp_path)


def test_a_folder_is_used_where_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "own"
    folder.mkdir(parents=True)
    with obtained("models/own", base=tmp_path) as origin:
        assert (origin.folder, origin.source, origin.revision) == (folder, "own", None)


def test_a_folder_may_be_pinned_to_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    (tmp_path / "notes.txt").write_bytes(b"not read")
    with (
        pytest.raises(OriginError, match="its files are sha256:") as refusal,
        obtained(str(tmp_path), "sha256:0"),
    ):
        pass
    digest = str(refusal.value).split("its files are ")[1].split(",")[0]
    (tmp_path / "notes.txt").write_bytes(b"changed")
    with obtained(str(tmp_path), digest) as origin:
        assert origin.revision == digest
    (tmp_path / "tokenizer.json").write_bytes(b"{ }")
    with pytest.raises(OriginError), obtained(str(tmp_path), digest):
        pass


@pytest.mark.parametrize("name", READ)
def test_a_pin_covers_each_file_that_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    before = digest_of(tmp_path)
    path.write_bytes(b"one")
    one = digest_of(tmp_path)
    path.write_bytes(b"two")
    assert len({before, one, digest_of(tmp_path)}) == 3


def test_what_the_hub_is_asked_for_is_what_is_read() -> None:
    names = [*READ, *UNWANTED, "tekken/a.json", "a/tekken.json", "a/b.tiktoken", "a.model/b.model.v3"]
    names += [f"additional_chat_templates/{name}" for name in ("chat_template.jinja", "a/b.jinja", "x.json")]
    fetched = list(filter_repo_objects(names, allow_patterns=[*ALLOWED], ignore_patterns=[*IGNORED]))
    assert fetched == [name for name in names if wanted(name)]
    assert set(READ) <= set(fetched)


@pytest.mark.parametrize(
    "source", ["a" * 5000, f"org/{'a' * 5000}", "a" * 300, f"s3://{'a' * 5000}", "/root\0", f"{'a/' * 2500}"]
)
def test_a_source_that_can_be_none_is_named_in_a_line(tmp_path: Path, source: str) -> None:
    model = Model(name="a", source=source)
    with pytest.raises(BuildError) as refusal:
        compile_layer([model], tmp_path / "out")
    message = str(refusal.value)
    assert message.startswith(repr(source)[:100])
    assert len(message) < 500
    assert message.isprintable()


def test_a_folder_that_is_closed_is_named_not_the_one_that_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "source", byte_level_tokenizer())

    def closed(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder / "config.json"))

    monkeypatch.setattr("layer_compiler.building.layer.build", closed)
    with pytest.raises(BuildError, match="can't be read: Permission denied") as refusal:
        compile_layer([Model(name="a", source=str(folder))], tmp_path / "out")
    assert str(refusal.value).startswith(str(folder))


# --- the Hub --------------------------------------------------------------------------------------------------


@pytest.fixture
def asked() -> list[str]:
    """The files that are downloaded."""
    return []


def use_hub(monkeypatch: pytest.MonkeyPatch, url: str, home: Path) -> None:
    """Have huggingface_hub ask another Hub, and keep its files elsewhere."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))


@pytest.fixture
def _hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> Iterator[None]:
    """A Hub with one repository, in place of the real one."""
    with serving(hub(REPOSITORY, COMMIT, FILES | UNWANTED, asked)) as url:
        use_hub(monkeypatch, url, tmp_path)
        yield


@pytest.mark.usefixtures("_hub")
@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_a_repository_gives_its_tokenizer_files_and_its_commit(asked: list[str], revision: str | None) -> None:
    with obtained(REPOSITORY, revision) as origin:
        assert (origin.source, origin.revision) == (REPOSITORY, COMMIT)
        there = {path.relative_to(origin.folder).as_posix() for path in origin.folder.rglob("*.*")}
        contents = {name: (origin.folder / name).read_bytes() for name in FILES}
    assert there == set(FILES)
    assert contents == FILES
    assert sorted(asked) == sorted(FILES)


@pytest.mark.usefixtures("_hub")
def test_what_is_in_the_cache_is_not_fetched_again(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with obtained(REPOSITORY, COMMIT):
        pass
    asked.clear()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with obtained(REPOSITORY, COMMIT) as origin:
        assert origin.revision == COMMIT
    assert asked == []


@pytest.mark.usefixtures("_hub")
@pytest.mark.parametrize(
    ("repository", "revision", "problem"),
    [
        (REPOSITORY, "nowhere", "no revision nowhere"),
        ("org/missing", None, "no such repository on the Hub, or a private one"),
        ("gated/model", None, "its owner has to let you in"),
    ],
)
def test_what_a_repository_does_not_give_is_said(repository: str, revision: str | None, problem: str) -> None:
    with pytest.raises(OriginError, match=problem), obtained(repository, revision):
        pass


def test_a_hub_that_is_not_there_is_said_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(monkeypatch, "http://127.0.0.1:9", tmp_path)
    with pytest.raises(OriginError, match="the Hub: ") as refusal, obtained(REPOSITORY):
        pass
    assert "\n" not in str(refusal.value)


def test_a_repositorys_vocabulary_has_its_name_and_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    folder = write_folder(tmp_path / "source", byte_level_tokenizer(), config={"vocab_size": 500})
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    models = tmp_path / "models.toml"
    models.write_text(f'[[model]]\nname = "own"\nsource = "{REPOSITORY}"\nrevision = "{COMMIT}"\n')
    with serving(hub(REPOSITORY, COMMIT, files, asked)) as url:
        use_hub(monkeypatch, url, tmp_path)
        assert main(["layer", "build", REPOSITORY, "--out", str(tmp_path / "out")]) == 0
        assert main(["layer", "build", "--models", str(models), "--out", str(tmp_path / "listed")]) == 0
    for path, name in (("out/org--model.vocab", REPOSITORY), ("listed/own.vocab", "own")):
        about = load(tmp_path / path).manifest
        assert (about.name, about.source, about.source_revision) == (name, REPOSITORY, COMMIT)


# --- S3 -------------------------------------------------------------------------------------------------------


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """S3 with a bucket of models."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="models")
        yield client


def test_a_prefix_gives_the_tokenizer_files_directly_under_it_and_its_templates(s3: Any) -> None:
    elsewhere = dict.fromkeys(
        (
            "../tokenizer.json",
            "additional_chat_templates/../../x.jinja",
            "additional_chat_templates/..\\x.jinja",
            "additional_chat_templates/",
        ),
        b"elsewhere",
    )
    for name, content in (FILES | UNWANTED | elsewhere).items():
        s3.put_object(Bucket="models", Key=f"a/b/{name}", Body=content)
    s3.put_object(Bucket="models", Key="a/b-large/spiece.model", Body=b"another")
    for uri in ("s3://models/a/b", "s3://models/a/b/"):
        with obtained(uri) as origin:
            assert origin.source == "s3://models/a/b"
            assert origin.revision is not None
            assert origin.revision.startswith("sha256:")
            found = {
                path.relative_to(origin.folder).as_posix(): path.read_bytes()
                for path in origin.folder.rglob("*")
                if path.is_file()
            }
            assert digest_of(origin.folder) == origin.revision
        assert found == FILES
        assert not origin.folder.exists()


def test_a_prefix_may_be_pinned_to_what_is_under_it(s3: Any) -> None:
    s3.put_object(Bucket="models", Key="tokenizer.json", Body=b"{}")
    with obtained("s3://models") as origin:
        pass
    with obtained("s3://models", origin.revision) as again:
        assert again.revision == origin.revision
    s3.put_object(Bucket="models", Key="tokenizer.json", Body=b"{ }")
    with (
        pytest.raises(OriginError, match=f"not the revision {origin.revision}"),
        obtained("s3://models", origin.revision),
    ):
        pass


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("s3://models/nothing", "no tokenizer or configuration file"),
        ("s3://missing/a", "NoSuchBucket"),
        ("s3:///a", "it must be s3://bucket/prefix"),
    ],
)
def test_what_s3_does_not_give_is_said(uri: str, problem: str) -> None:
    with pytest.raises(OriginError, match=problem), obtained(uri):
        pass


def test_what_is_too_large_is_not_fetched(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_source, "MOST_BYTES", 10)
    s3.put_object(Bucket="models", Key="a/config.json", Body=b"x" * 6)
    s3.put_object(Bucket="models", Key="a/tokenizer.json", Body=b"x" * 6)
    with pytest.raises(OriginError, match="more than 10 bytes"), obtained("s3://models/a"):
        pass


@pytest.mark.parametrize(("source", "module"), [(REPOSITORY, "huggingface_hub"), ("s3://models/a", "boto3")])
def test_what_is_not_installed_is_named(source: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(OriginError, match=rf"needs {module}.*: pip install 'derender\[build\]'"),
        obtained(source),
    ):
        pass
