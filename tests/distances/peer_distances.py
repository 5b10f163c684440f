"""What peers' attacks come to, measured alike: by the model's own answer, and `inf` where they failed."""

import foolbox
import numpy as np
import torch

from fairmargin.models.as_classifier import as_classifier


def of_inputs(module, x, y, adversarial, norm):
    """The distances of a peer's inputs that the module really misclassifies."""
    points = np.asarray(adversarial.detach().numpy())
    lengths = norm.length((points.astype(float) - x).reshape(len(x), -1))
    return np.where(as_classifier(module).predict(points) != y, lengths, np.inf)


def of_foolbox(module, x, y, attack, norm):
    """Those of one of foolbox's attacks. One that fails hands back zeros or the clean input."""
    model = foolbox.PyTorchModel(module, bounds=(0, 1), device="cpu")
    raw, _, _ = attack(model, torch.tensor(x), torch.tensor(y), epsilons=None)
    failed = (raw.flatten(1) == 0).all(dim=1).numpy()
    return np.where(failed, np.inf, of_inputs(module, x, y, raw, norm))


def assert_as_good(ours, theirs, within=1.0):
    """At least as many found, and on average over those of the peer no farther than so many times its distance."""
    reached = np.isfinite(theirs)
    assert reached.any()
    assert np.isfinite(ours[reached]).all()
    assert ours[reached].mean() <= within * theirs[reached].mean()
