"""Random initial weights, where the authors of a network state how to draw them."""

from torch import nn


def he_initialised(network: nn.Module) -> nn.Module:
    """Draw the weights of convolutions from N(0, 2 / (kernel area × output channels)), set their biases to 0.

    The published code of torch.ch's CNN, PyramidNet, VGG and residual networks does so; torch itself draws uniformly
    from another range. The network is changed in place and returned.

    Reference: He et al., "Delving Deep into Rectifiers", ICCV 2015.

    >>> network = he_initialised(nn.Conv2d(3, 64, 3))
    >>> network.bias.abs().max().item()
    0.0
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return network
