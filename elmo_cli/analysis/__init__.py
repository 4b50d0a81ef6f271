"""Analysis of embeddings files: nearest neighbors, words in context and linear probes."""
