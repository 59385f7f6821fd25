"""Compares a vocabulary with the tokenizer on the GPU side.

Imports only `corpus` and derender.
"""
