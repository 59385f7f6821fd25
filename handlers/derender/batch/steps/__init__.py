"""The steps of a job: plan it, derender its parts, finish it (docs/batch.md).

Imports `lines`, `stores`, `job` and `errors` of `batch`.
"""
