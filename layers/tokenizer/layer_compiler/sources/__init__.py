"""Fetches a model's files: from a folder, the Hugging Face Hub or S3.

Imports `model_files`, which says what to fetch.
"""
