"""Gradients of a whole step against finite differences, each tensor of parameters by itself.

In float64, through the code of training: token vectors once a distinct type, the fused LSTM in both
directions, residual links, clips of cell and output that some values reach, the full softmax.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import pytest
import torch
from tiny_run import SETTINGS, new_model

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.step import TrainStep
from elmo_cli.lm.stream import StreamBatch, batches
from elmo_cli.model.bilm import State
from elmo_cli.model.options import Options

OPTIONS = Options(
    filters=((1, 2), (3, 4)),
    projection_dim=4,
    lstm_dim=5,
    char_dim=3,
    n_highway=2,
    cell_clip=0.7,
    proj_clip=0.45,
)
STEPS = (1e-5, 3e-6, 3e-5, 1e-6, 1e-4)  # differences lose to rounding below, to curvature above
LARGEST_ERROR = 1e-6
N_DIRECTIONS = 4


class Point:
    """A biLM, a window and a state: where the gradient is taken."""

    def __init__(self, activation: str) -> None:
        torch.manual_seed(7)
        options = replace(OPTIONS, activation=activation)
        lines = [[f"w{(7 * i + k) % 11}" for k in range(2 + i % 5)] for i in range(20)]
        corpus = Corpus.read(lines)
        model = new_model(corpus, options, seed=1, min_count=2)
        self.bilm = model.bilm.double()
        self.parameters = dict(model.bilm.named_parameters())
        self.parameters.update(model.softmax.double().named_parameters("softmax"))
        with torch.no_grad():
            for parameter in self.parameters.values():
                parameter.add_(torch.randn_like(parameter) * 0.4)
        settings = replace(SETTINGS, batch_size=2, bptt=4, dropout=0.0)
        self.step = TrainStep(model, corpus, settings, ProcessGroup())
        self.corpus = corpus
        self.batch: StreamBatch = next(islice(batches(corpus, settings), 2, None))
        zeros = self.step.new_state(2)
        self.state = State(torch.randn_like(zeros.h) * 0.3, torch.randn_like(zeros.c) * 0.3)

    def loss(self) -> torch.Tensor:
        return self.step.loss(self.batch, self.state)[0]

    def slope(self, parameter: torch.Tensor, direction: torch.Tensor, step: float) -> float:
        """The change of the loss along a direction, by a central difference."""
        before = parameter.detach().clone()
        with torch.no_grad():
            parameter.copy_(before + step * direction)
            above = self.loss().item()
            parameter.copy_(before - step * direction)
            below = self.loss().item()
            parameter.copy_(before)
        return (above - below) / (2 * step)

    def error(self, parameter: torch.Tensor, gradient: torch.Tensor) -> float:
        """The largest error of a gradient along some directions, relative to its norm.

        A wrong element changes the slope along each of them.
        """
        errors = []
        for _ in range(N_DIRECTIONS):
            direction = torch.randn_like(gradient)
            expected = (gradient * direction).sum().item()
            error = math.inf  # of the best step
            for step in STEPS:
                found = self.slope(parameter, direction, step)
                error = min(error, abs(found - expected) / gradient.norm().item())
                if error <= LARGEST_ERROR:
                    break
            errors.append(error)
        return max(errors)


@pytest.mark.parametrize("activation", ["relu", pytest.param("tanh", marks=pytest.mark.slow)])
def test_each_tensor_has_the_gradient_of_finite_differences(activation: str) -> None:
    """A wrong gradient still learns something: only differences show it, also at the clips."""
    point = Point(activation)
    loss, state_after = point.step.loss(point.batch, point.state)
    check_some_are_clipped(state_after.c, OPTIONS.cell_clip)
    check_some_are_clipped(state_after.h, OPTIONS.proj_clip)
    loss.backward()
    too_large = {}
    for name, parameter in point.parameters.items():
        analytic = parameter.grad
        assert analytic is not None, name
        error = point.error(parameter, analytic)
        if not error <= LARGEST_ERROR:
            too_large[name] = error
    assert too_large == {}


def check_some_are_clipped(values: torch.Tensor, clip: float | None) -> None:
    """Some values must reach the bound, and some not, or the test shows nothing."""
    assert clip is not None
    fraction = (values.abs() >= clip).double().mean().item()
    assert 0.05 < fraction < 0.95
