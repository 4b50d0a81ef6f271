"""Task models that are trained on embeddings files: the six tasks of Peters et al. 2018."""
