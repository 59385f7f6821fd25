"""What tests share: small vocabularies and tokenizers, clients, events, and servers that stand in for others.

Fixtures are in the `conftest.py` of each folder. Nothing here imports from a test folder.
"""
