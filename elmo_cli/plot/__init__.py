"""Plots of embeddings, probes, layer weights and training runs."""
