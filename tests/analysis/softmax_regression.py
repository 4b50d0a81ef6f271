"""Reference probes in float64: Adam with an explicit gradient, and Newton's method."""

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
    first = np.zeros_like(weights)  # moment of the gradient
    second = np.zeros_like(weights)
    step = 0
    n_steps = 10 * math.ceil(len(targets) / 512)
    for _ in range(10):
        order = torch.randperm(len(targets), generator=random).numpy()
        for start in range(0, len(order), 512):
            rows = order[start : start + 512]
            errors = np.exp(log_probabilities(inputs[rows], weights))  # (vector, label)
            errors[np.arange(len(rows)), targets[rows]] -= 1
            gradient = inputs[rows].T @ errors / len(rows)
            gradient[:-1] += 2 * decay * weights[:-1]
            rate = 1e-2 * (1 - step / n_steps)
            step += 1
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            root = np.sqrt(second / (1 - 0.999**step)) + 1e-8
            weights = weights - rate * first / (1 - 0.9**step) / root
    return weights


def converged_weights(
    vectors: np.ndarray, targets: np.ndarray, n_labels: int, decay: float
) -> np.ndarray:
    """Weights (dim + 1, label) of minimal loss, decayed towards those that predict counts + 1."""
    inputs = with_ones(vectors)
    n = len(targets)
    counts = np.bincount(targets, minlength=n_labels) + 1
    prior = np.zeros((inputs.shape[1], n_labels))
    prior[-1] = np.log(counts / counts.sum())

    def loss(weights: np.ndarray) -> float:
        nats = -log_probabilities(inputs, weights)[np.arange(n), targets].mean()
        return float(nats + decay * ((weights - prior) ** 2).sum())

    weights = prior.copy()
    for _ in range(50):
        probabilities = np.exp(log_probabilities(inputs, weights))
        errors = probabilities - np.eye(n_labels)[targets]
        gradient = inputs.T @ errors / n + 2 * decay * (weights - prior)
        if abs(gradient).max() < 1e-12:
            break
        variances = probabilities[:, :, None] * (np.eye(n_labels) - probabilities[:, None])
        hessian = np.einsum("na,nkl,nb->akbl", inputs, variances, inputs) / n
        hessian = hessian.reshape(prior.size, -1) + 2 * decay * np.eye(prior.size)
        step = np.linalg.solve(hessian, gradient.ravel()).reshape(prior.shape)
        while loss(weights - step) > loss(weights) + 1e-12:
            step /= 2
        weights = weights - step
    assert abs(gradient).max() < 1e-9
    return weights


def with_ones(vectors: np.ndarray) -> np.ndarray:
    return np.concatenate([vectors, np.ones((len(vectors), 1))], axis=1)


def log_probabilities(inputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    scores = inputs @ weights
    scores -= scores.max(1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(1, keepdims=True))
