"""Where a model comes from: a folder, a compiled vocabulary, the Hugging Face Hub or S3.

Imports `model_files`, which says which files to fetch.
"""
