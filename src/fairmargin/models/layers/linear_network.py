"""Conversion of torch networks with only affine layers to linear classifiers."""

import math

from fairmargin.errors import ModelError
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.protocol import Classifier

_AGREEMENT = 1e-4  # maximum difference of scores between float32 and float64, relative to the largest score


def served(model: Classifier, needs: str, shape: tuple[int, ...]) -> Classifier:
    """Return the model in the form that an estimator needs, for samples of this shape.

    This is the model itself or, if the estimator needs "linear", the linear classifier of an affine network.
    """
    if needs != "linear" or "linear" in model.offers:
        return model
    return as_linear(model, shape) or model


def as_linear(model: Classifier, shape: tuple[int, ...]) -> LinearClassifier | None:
    """Return the linear classifier that a torch network computes, or None if the network is not affine.

    f(x) = W x + b, with b the scores of the input 0 and the rows of W the gradients of the scores. Normalisation,
    evaluated BatchNorm, convolutions and average pooling are affine; they become part of W and b.

    >>> import torch
    >>> from fairmargin.models.torch_model import from_torch
    >>> affine = torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.Linear(5, 3))
    >>> as_linear(from_torch(affine), (2,))
    LinearClassifier(3 classes, 2 features, Domain(low=0, high=1, scale=1))
    >>> as_linear(from_torch(torch.nn.Sequential(affine, torch.nn.ReLU())), (2,)) is None
    True
    """
    if "layers" not in model.offers:
        return None
    import torch

    from fairmargin.models.layers.affine import Affine
    from fairmargin.models.layers.steps import Added
    from fairmargin.models.layers.tracing import layers_of
    from fairmargin.models.torch_model import TorchClassifier

    if not isinstance(model, TorchClassifier):
        return None
    rows = torch.rand(model.tile, math.prod(shape), generator=torch.Generator().manual_seed(0))
    model = model.with_outputs_for(rows.reshape(-1, *shape).numpy())  # handles a single logit and a final softmax
    with model.network(shape) as network:
        given = network.plain(rows.to(network.device, network.dtype)).double()  # raises if the shape is wrong
        try:
            layers = layers_of(model, shape)
        except ModelError:
            return None
        if not all(isinstance(step.kind, (Affine, Added)) for step in layers.steps):
            return None
        origin = torch.zeros(network.classes, rows.shape[1], dtype=torch.float64, device=network.device)
        with torch.enable_grad():
            scores = layers.scores(origin.requires_grad_(True))
            (weight,) = torch.autograd.grad(scores.diagonal().sum(), origin)
        bias = scores.detach()[0]
        read = rows.to(network.device, network.dtype).double() @ weight.T + bias
        if not torch.allclose(read, given, rtol=0, atol=_AGREEMENT * float(1 + given.abs().max())):
            return None
    return LinearClassifier(weight.cpu().numpy(), bias.cpu().numpy(), model.classes, model.domain)
