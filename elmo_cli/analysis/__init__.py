"""Measures of embeddings and of a language model, as functions of arrays and of files."""
