"""Plots of embeddings, geometry, probes, trees, layer weights and training runs."""
