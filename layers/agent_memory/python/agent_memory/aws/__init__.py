"""Adapters: one AWS service per module, error codes translated once."""
