"""Stores: where the objects of a job are. A store writes each object whole or not at all.

Imports nothing of the other rooms. `s3` needs boto3, so it is imported only where S3 is used.
"""
