"""The command `derender batch IN OUT`: a job on files, on all cores. It goes on where it was stopped.

Imports all other packages of `batch`.
"""
