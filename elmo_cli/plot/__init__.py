"""Plots of embeddings, probes, trees, layer weights and training runs."""
