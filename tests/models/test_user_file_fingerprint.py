"""A model file may be moved without its distances being measured anew."""

from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.loading import load_model

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x)

def make():
    torch.manual_seed(0)
    return Net()
"""


def fingerprint(folder, code=NET):
    folder.mkdir()
    (folder / "net.py").write_text(code)
    return as_classifier(load_model(f"{folder}/net.py:make")).fingerprint()


def test_a_moved_file_is_the_same_model_and_an_edited_one_is_another(tmp_path):
    here, there = fingerprint(tmp_path / "here"), fingerprint(tmp_path / "there")
    assert here == there
    assert fingerprint(tmp_path / "edited", NET.replace("self.layer(x)", "2 * self.layer(x)")) != here
