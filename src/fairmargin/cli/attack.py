"""`fairmargin attack`: robust accuracy at fixed radii, by group."""

from fairmargin.cli.execution import execute
from fairmargin.cli.options import Engine, Json, Out, Plan, Quiet, command
from fairmargin.study.options import AttackOptions, DataOptions, GroupOptions, ModelOptions
from fairmargin.study.study import RunOptions, Study


@command
def attack(
    out: Out,
    model: ModelOptions,
    data: DataOptions,
    groups: GroupOptions,
    attack: AttackOptions,
    general: RunOptions,
    engine: Engine = "serial",
    plan: Plan = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack every sample at fixed radii, and compare how much accuracy is left for each group.

    The folder of an audit of the same model and data may be used again: its results stay.

    Examples:

    [dim]# a network of the catalog on CIFAR-10, at the usual radius[/]
    fairmargin attack --model arch:resnet20 --weights resnet20.th --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
    --data cifar10 --root data --split test --attack pgd:steps=40 --radius 4/255 --group class --out run

    [dim]# several attacks and radii; a sample counts as robust if it withstands all attacks[/]
    fairmargin attack --model net.py:make --weights net.safetensors --data faces/ --labels faces.csv --label age
    --group sex --attack apgd --attack square --radius 2/255 --radius 4/255 --out run
    """
    study = Study(data=data, model=model, groups=groups, attack=attack, **dict(general))
    execute(study, out, engine, plan=plan, json_=json_, quiet=quiet)
