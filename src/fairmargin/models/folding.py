"""BatchNorm folded, and channels last: what a module calculates stays the same but for last digits."""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from fairmargin.errors import ModelError

# By exact type: a subclass may calculate something else.
_PAIRS = {
    (nn.Conv1d, nn.BatchNorm1d),
    (nn.Conv2d, nn.BatchNorm2d),
    (nn.Conv3d, nn.BatchNorm3d),
    (nn.Linear, nn.BatchNorm1d),
}


class ChannelsLast(nn.Module):
    """A module that calculates with channels last in memory.

    Parameters
    ----------
    model
        Its weights are laid out anew, in place.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.dim() == 4:
                tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """The model's answer; only images, with four axes, are laid out anew."""
        scores: Tensor = self.model(x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x)
        return scores


def folded(module: nn.Module) -> fx.GraphModule:
    """The module as a graph in which every BatchNorm behind a convolution or linear layer is part of that layer.

    In evaluation BatchNorm is affine: w·z + b of z = W x + c is one layer with weights w·W. The module must be a copy
    in evaluation mode; its layers become the graph's.

    Guarantee: a layer used twice, read from elsewhere, with hooks, or without fixed statistics is left as it is. A
    module whose steps cannot be traced, or that has nothing to fold, is a `ModelError`.

    References
    ----------
    B. Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference",
    CVPR 2018, §3.2.

    >>> net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    >>> [type(part).__name__ for part in folded(net).children()]
    ['Conv2d', 'ReLU']
    """
    try:
        graph = fx.symbolic_trace(module)
    except Exception as error:  # tracing runs the user's forward on stand-ins, which may raise anything
        reason = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
        raise ModelError(f"its steps cannot be traced ({reason})") from None
    calls = Counter(id(graph.get_submodule(str(n.target))) for n in graph.graph.nodes if n.op == "call_module")
    read = {str(node.target).rpartition(".")[0] for node in graph.graph.nodes if node.op == "get_attr"}
    count = 0
    for node in list(graph.graph.nodes):
        before = _layer_before(node)
        if before is None or {before.target, node.target} & read:
            continue
        layer, norm = graph.get_submodule(str(before.target)), graph.get_submodule(str(node.target))
        if not _foldable(layer, norm) or calls[id(layer)] > 1 or calls[id(norm)] > 1:
            continue
        fuse: Any = fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
        graph.set_submodule(str(before.target), fuse(layer, norm))
        node.replace_all_uses_with(before)
        graph.graph.erase_node(node)
        count += 1
    if not count:
        raise ModelError("no BatchNorm follows a convolution or linear layer of its own")
    graph.delete_all_unused_submodules()
    graph.recompile()
    return graph


def _layer_before(node: fx.Node) -> fx.Node | None:
    """The call of a layer whose result this call of a layer alone takes."""
    if node.op != "call_module" or len(node.args) != 1 or node.kwargs:
        return None
    before = node.args[0]
    if not isinstance(before, fx.Node) or before.op != "call_module" or len(before.users) != 1:
        return None
    return before


def _foldable(layer: nn.Module, norm: nn.Module) -> bool:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return (
        (type(layer), type(norm)) in _PAIRS
        and getattr(norm, "running_mean", None) is not None
        and not norm.training
        and not any(getattr(part, name) for part in (layer, norm) for name in hooks)
    )
