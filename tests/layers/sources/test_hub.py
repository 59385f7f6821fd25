"""Repositories of the Hugging Face Hub. A server here stands in for the Hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import huggingface_hub
import huggingface_hub.constants
import pytest
from huggingface_hub.utils._paths import filter_repo_objects

from derender.cli import main
from derender.vocabulary import load
from layer_compiler import LayerError
from layer_compiler.model_files.filenames import PATTERNS, is_model_file
from layer_compiler.sources.fetch import fetch_model
from layer_compiler.sources.hub import IGNORED
from tests.layers.stand_ins import hub, serve
from tests.support.small_tokenizers import byte_level_tokenizer, write_folder

from .files import FILES, READ, UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPOSITORY: Final = "org/model"
COMMIT: Final = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def asked() -> list[str]:
    """Collect the files that are downloaded."""
    return []


def use_hub(monkeypatch: pytest.MonkeyPatch, url: str, home: Path) -> None:
    """Make huggingface_hub ask another Hub, and keep its files elsewhere."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))


@pytest.fixture
def _hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> Iterator[None]:
    """Replace the Hub by one with a single repository."""
    with serve(hub(REPOSITORY, COMMIT, FILES | UNREAD, asked)) as url:
        use_hub(monkeypatch, url, tmp_path)
        yield


def test_the_hub_is_asked_for_the_files_that_are_read() -> None:
    names = [*READ, *UNREAD, "tekken/a.json", "a/tekken.json", "a/b.tiktoken", "a.model/b.model.v3"]
    names += [f"additional_chat_templates/{name}" for name in ("chat_template.jinja", "a/b.jinja", "x.json")]
    fetched = list(filter_repo_objects(names, allow_patterns=[*PATTERNS], ignore_patterns=[*IGNORED]))
    assert fetched == [name for name in names if is_model_file(name)]
    assert set(READ) <= set(fetched)


@pytest.mark.usefixtures("_hub")
@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_a_repository_gives_its_files_and_its_commit(asked: list[str], revision: str | None) -> None:
    with fetch_model(REPOSITORY, revision) as model:
        assert (model.source, model.revision) == (REPOSITORY, COMMIT)
        found = {path.relative_to(model.folder).as_posix() for path in model.folder.rglob("*.*")}
        contents = {name: (model.folder / name).read_bytes() for name in FILES}
    assert found == set(FILES)
    assert contents == FILES
    assert sorted(asked) == sorted(FILES)


@pytest.mark.usefixtures("_hub")
def test_cached_files_are_not_fetched_again(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with fetch_model(REPOSITORY, COMMIT):
        pass
    asked.clear()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with fetch_model(REPOSITORY, COMMIT) as model:
        assert model.revision == COMMIT
    assert asked == []


@pytest.mark.usefixtures("_hub")
@pytest.mark.parametrize(
    ("repository", "revision", "problem"),
    [
        (REPOSITORY, "nowhere", "no revision nowhere"),
        ("org/missing", None, "not on the Hub, or private"),
        ("gated/model", None, "access is restricted"),
    ],
)
def test_a_refusal_of_the_hub_says_what_to_do(repository: str, revision: str | None, problem: str) -> None:
    with pytest.raises(LayerError, match=problem), fetch_model(repository, revision):
        pass


def test_an_unreachable_hub_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(monkeypatch, "http://127.0.0.1:9", tmp_path)
    with pytest.raises(LayerError, match="the Hub: ") as refusal, fetch_model(REPOSITORY):
        pass
    assert "\n" not in str(refusal.value)


def test_a_folder_without_a_commit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: "/cache/main")
    with pytest.raises(LayerError, match="does not say the commit of /cache/main"), fetch_model(REPOSITORY):
        pass


def test_a_repositorys_vocabulary_has_its_name_and_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    folder = write_folder(tmp_path / "source", byte_level_tokenizer(), config={"vocab_size": 500})
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    models = tmp_path / "models.toml"
    models.write_text(f'[[model]]\nname = "own"\nsource = "{REPOSITORY}"\nrevision = "{COMMIT}"\n')
    with serve(hub(REPOSITORY, COMMIT, files, asked)) as url:
        use_hub(monkeypatch, url, tmp_path)
        assert main(["layer", "build", REPOSITORY, "--out", str(tmp_path / "out")]) == 0
        assert main(["layer", "build", "--models", str(models), "--out", str(tmp_path / "listed")]) == 0
    for path, name in (("out/org--model.vocab", REPOSITORY), ("listed/own.vocab", "own")):
        manifest = load(tmp_path / path).manifest
        assert (manifest.name, manifest.source, manifest.source_revision) == (name, REPOSITORY, COMMIT)
