"""`fairmargin audit`: measure, compare, report."""

from fairmargin.cli.execution import execute
from fairmargin.cli.options import Engine, Json, Out, Plan, Quiet, command
from fairmargin.study.options import AuditOptions, DataOptions, GroupOptions, ImportOptions, ModelOptions
from fairmargin.study.study import RunOptions, Study


@command
def audit(
    out: Out,
    model: ModelOptions,
    data: DataOptions,
    imported: ImportOptions,
    groups: GroupOptions,
    audit: AuditOptions,
    general: RunOptions,
    engine: Engine = "serial",
    plan: Plan = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure how far each sample lies from the decision boundary, compare groups, and write a report.

    Examples:

    [dim]# a scikit-learn model as weights, and a table[/]
    fairmargin audit --model model.npz --data people.csv --label hired --group sex --cross race,sex --out run

    [dim]# a pipeline, forest or boosted model of scikit-learn, XGBoost or LightGBM, on raw rows[/]
    fairmargin audit --model model.joblib --trust-model --data people.csv --label income --group sex --out run

    [dim]# the same with rules for columns (`fairmargin columns people.csv` writes a draft), and groups by age[/]
    fairmargin audit --model model.joblib --trust-model --data people.csv --label income --group sex --group age
    --bins age=30,45,60 --columns rules.toml --immutable marital-status --training-data train.csv --out run

    [dim]# distances that you already have[/]
    fairmargin audit --distances table.parquet --bound upper --norm l2 --group sex --out run

    [dim]# a PyTorch network by its name and weights, on CIFAR-10, 200 images of each class[/]
    fairmargin audit --model arch:resnet20 --weights resnet20.th --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
    --data cifar10 --root data --split test --per-group 200 --estimator plumb:norm=linf --out run

    [dim]# only as many images as it takes to know each class's σ to ± 3 points[/]
    fairmargin audit --model arch:resnet20 --weights resnet20.th --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
    --data cifar10 --root data --split test --precision 0.03 --out run

    [dim]# your own network and images[/]
    fairmargin audit --model net.py:make --weights net.safetensors --data faces/ --labels faces.csv --label age
    --group sex --size 64 --out run

    [dim]# any scikit-learn object, from your own code; groups compared within each class[/]
    fairmargin audit --model train.py:model --data people.csv --label hired --group race --control hired --out run
    """
    study = Study(data=data, model=model, imported=imported, groups=groups, audit=audit, **dict(general))
    execute(study, out, engine, plan=plan, json_=json_, quiet=quiet)
