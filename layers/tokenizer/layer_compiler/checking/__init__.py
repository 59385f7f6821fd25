"""Compares a vocabulary with the tokenizer on the GPU side.

A server without a tokenizer can't tell that the layer is another model's: the text is wrong, and nothing fails.

Imports only `corpus`, `decoding` and derender.
"""
