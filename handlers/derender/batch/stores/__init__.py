"""Stores: where the objects of a job are. A store writes each object whole or not at all.

Imports no other package of `batch`. `s3` needs boto3, so it is imported only where S3 is used.
"""
