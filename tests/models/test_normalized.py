"""Normalisation as a layer."""

import pickle

import numpy as np
import pytest
import torch
from torch import fx, nn

from fairmargin.models.normalized import Normalized

X = torch.rand(4, 3, 5, 6, generator=torch.Generator().manual_seed(0))
MEAN, STD = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)


def by_hand(x, mean, std):
    shape = (-1, *[1] * (x.ndim - 2))
    return (x.numpy().astype(float) - np.reshape(mean, shape)) / np.reshape(std, shape)


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (4, 3, 5, 6)])
def test_each_channel_has_its_own_numbers(shape):
    x = X.reshape(4, 3, -1)[:, :, : int(np.prod(shape[2:]))].reshape(shape)
    found = Normalized(nn.Identity(), MEAN, STD)(x)
    np.testing.assert_allclose(found.numpy(), by_hand(x, MEAN, STD), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("mean", "std"),
    [(0.5, 0.25), ([0.5], [0.25]), (MEAN, 0.25), (0.5, STD), (np.array(MEAN), torch.tensor(STD))],
    ids=["numbers", "lists", "one std", "one mean", "arrays"],
)
def test_one_number_serves_every_channel(mean, std):
    found = Normalized(nn.Identity(), mean, std)(X)
    expected = by_hand(X, np.broadcast_to(mean, 3), np.broadcast_to(std, 3))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_gradient_is_in_the_units_of_the_input():
    x = X.clone().requires_grad_()
    Normalized(nn.Identity(), MEAN, STD)(x).sum().backward()
    for channel, std in enumerate(STD):
        assert x.grad[:, channel].eq(1 / std).all()


def test_the_memory_format_of_images_is_kept():
    layer = Normalized(nn.Identity(), MEAN, STD)
    assert layer(X).is_contiguous()
    last = X.contiguous(memory_format=torch.channels_last)
    assert layer(last).is_contiguous(memory_format=torch.channels_last)


def test_weights_are_saved_without_the_normalisation():
    wrapped = Normalized(nn.Conv2d(3, 2, 1), MEAN, STD)
    assert list(wrapped.state_dict()) == ["model.weight", "model.bias"]
    assert {name for name, _ in wrapped.named_buffers()} == {"mean", "std"}


def test_the_normalisation_has_the_type_of_the_model_and_moves_with_it():
    wrapped = Normalized(nn.Conv2d(3, 2, 1).double(), MEAN, STD)
    assert wrapped(X.double()).dtype == torch.float64
    assert wrapped.mean.tolist() == list(MEAN)  # not rounded to float32 on the way
    assert Normalized(nn.Conv2d(3, 2, 1), MEAN, STD).to("meta").std.device.type == "meta"


def test_can_be_traced_and_pickled():
    wrapped = Normalized(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), MEAN, STD).eval()
    expected = wrapped(X)
    assert torch.equal(fx.symbolic_trace(wrapped)(X), expected)
    assert torch.equal(pickle.loads(pickle.dumps(wrapped))(X), expected)


def test_numbers_are_copied_and_shown_and_bytes_are_normalised():
    mean = torch.zeros(3)
    wrapped = Normalized(nn.Identity(), mean, 1.0)
    mean += 1
    assert wrapped.mean.tolist() == [0, 0, 0]
    assert repr(Normalized(nn.Identity(), 0.5, 0.5)) != repr(Normalized(nn.Identity(), 0.5, 0.25))
    assert Normalized(nn.Identity(), 0.5, 0.5)(torch.tensor([[0, 1]], dtype=torch.uint8)).tolist() == [[-1.0, 1.0]]
