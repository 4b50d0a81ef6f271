"""Task models trained on embeddings files: the six tasks of Peters et al. 2018, and one more."""
