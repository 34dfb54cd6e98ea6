"""Real steps, counted: weights, gradients, moments and what autograd keeps."""

from __future__ import annotations

import torch

from road_ray.training import probe


def test_only_inside_is_anything_measured():
    assert not probe.asked()
    with probe.probing():
        assert probe.asked()
    assert not probe.asked()


def test_what_autograd_keeps_is_counted_once_and_parameters_are_not():
    weight = torch.nn.Parameter(torch.ones(3, 3))
    x = torch.ones(5, 3)
    with probe._held() as held:
        y = (x @ weight).tanh()  # keeps x and tanh's result
        z = y * y  # keeps y again
        z.sum().backward()
    assert held.largest == (5 * 3 + 5 * 3) * 4
