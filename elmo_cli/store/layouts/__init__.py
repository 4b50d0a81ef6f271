"""How an embeddings file is keyed and shaped, one layout a file."""
