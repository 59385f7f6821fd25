"""Builds layers: reads models.toml, compiles each model's vocabulary, proves it and writes it.

Imports `inference`, `formats`, `sources` and `model_files`.
"""
