"""Compiles tokenizers into the vocabularies that derender maps.

    build(folder, name, out) → BuiltVocabulary(path, manifest, proof, warnings)

| package | what it does |
| --- | --- |
| `model_files` | reads a model's folder within limits, and its configuration |
| `sources` | fetches a model's files |
| `formats` | parses a tokenizer of any format into token id → bytes |
| `inference` | infers the parsers and how prompts end from the model's files |
| `building` | compiles, proves and writes vocabularies, from one model or a models.toml |
| `checking` | compares a vocabulary with the tokenizer on the GPU side |
| `publishing` | publishes a layer in AWS |
| `cli` | the commands of `derender layer` |

A vocabulary is proven before it is written: every id, a corpus and random sequences decode as the format's own
library decodes them.
"""

from .building.vocabulary import BuiltVocabulary, build
from .errors import LayerError

__all__ = ["BuiltVocabulary", "LayerError", "build"]
