"""The probe in float64, with Adam and the gradient written out."""

from __future__ import annotations

import math

import numpy as np
import torch


def train_weights(
    vectors: np.ndarray, targets: np.ndarray, n_labels: int, decay: float
) -> np.ndarray:
    """Weights (dim + 1, label) after ten epochs with seed 0."""
    random = torch.Generator().manual_seed(0)
    inputs = with_ones(vectors.astype(np.float64))
    weights = np.zeros((inputs.shape[1], n_labels))
    first, second, step = np.zeros_like(weights), np.zeros_like(weights), 0
    n_steps = 10 * math.ceil(len(targets) / 512)
    for _ in range(10):
        order = torch.randperm(len(targets), generator=random).numpy()
        for start in range(0, len(order), 512):
            rows = order[start : start + 512]
            probabilities = np.exp(log_probabilities(inputs[rows], weights))
            probabilities[np.arange(len(rows)), targets[rows]] -= 1
            gradient = inputs[rows].T @ probabilities / len(rows)
            gradient[:-1] += 2 * decay * weights[:-1]
            rate = 1e-2 * (1 - step / n_steps)
            step += 1
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            root = np.sqrt(second / (1 - 0.999**step)) + 1e-8
            weights = weights - rate * first / (1 - 0.9**step) / root
    return weights


def with_ones(vectors: np.ndarray) -> np.ndarray:
    return np.concatenate([vectors, np.ones((len(vectors), 1))], axis=1)


def log_probabilities(inputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    scores = inputs @ weights
    scores -= scores.max(1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(1, keepdims=True))
