"""Analysis of embeddings files: nearest neighbours, words in context and linear probes."""
