"""Embeddings in HDF5; no torch, so that inspect and merge start at once."""
