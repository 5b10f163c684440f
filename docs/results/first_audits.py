"""Write docs/results/first-audits.md: `python docs/results/first_audits.py`, with ../shared beside the project.

It runs the commands that the page shows (ten minutes on one core) and fills in their results, which are kept in
fairmargin-results/, so that an interrupted run continues. Results belong to a version of the package: after a change of
the statistics within a version, remove fairmargin-results/ first.
"""

import platform
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
from playwright.sync_api import sync_playwright

from fairmargin.study.run_folder import RunFolder

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUNS = ROOT / "fairmargin-results"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]

ACCURACY = """fairmargin audit --model arch:resnet20 --weights ../shared/weights/cifar10-resnet20-12fca82f.th
 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --data cifar10 --root ../shared/data --split test
 --estimator softmax_margin --group class --out fairmargin-results/cifar10-accuracy"""
CIFAR = """fairmargin audit --model arch:resnet20 --weights ../shared/weights/cifar10-resnet20-12fca82f.th
 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --data cifar10 --root ../shared/data --split test
 --per-group 300 --estimator deepfool:norm=l2 --estimator deepfool:norm=linf --group class
 --out fairmargin-results/cifar10-resnet20"""
ADULT = """fairmargin audit --model docs/results/adult_model.py:model --data adult --root ../shared/data --split test
 --estimator exact_linear:norm=l2 --group sex --group race --cross sex,race --control class
 --out fairmargin-results/adult-logistic"""


def run(command: str) -> Path:
    """Run a command from the project's folder, as a reader would, and return the folder of its results."""
    words = shlex.split(command.replace("\n", " "))
    subprocess.run([Path(sys.executable).parent / words[0], *words[1:], "--quiet"], cwd=ROOT, check=True)
    return ROOT / words[words.index("--out") + 1]


def table(run_folder: Path, partition: str, estimator: str) -> str:
    """Return the audit of one partition as Markdown, most vulnerable group first."""
    rows = pd.read_csv(run_folder / "audit.csv")
    rows = rows[(rows["partition"] == partition) & (rows["estimator"] == estimator)].sort_values("sigma")
    lines = [
        "| group | samples | accuracy | mean distance | σ | 95 % interval for all groups | p (Holm) | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows.to_dict("records"):
        adjusted, sigma = row["p_adjusted"], row["sigma"]
        p = "–" if pd.isna(adjusted) else "< 0.001" if adjusted < 0.001 else f"{adjusted:.3f}"
        interval = "–" if pd.isna(row["sigma_low"]) else f"{row['sigma_low']:+.1%} to {row['sigma_high']:+.1%}"
        lines.append(
            f"| {row['group']} | {row['size']:,} | {row['accuracy']:.1%} | {row['robustness']:.4g} "
            f"| {'–' if pd.isna(sigma) else f'{sigma:+.1%}'} | {interval} | {p} | {row['verdict']} |"
        )
    return "\n".join(lines)


def overall(run_folder: Path, estimator: str) -> str:
    """Return the accuracy over all samples with its interval."""
    folder = RunFolder.existing(run_folder)
    stored = next(r for r in folder.read().results if r.kind == "audit" and r.about.estimator == estimator)
    accuracy = folder.kept(stored).overall.accuracy
    return f"{accuracy.value:.2%} ({accuracy.low:.2%} to {accuracy.high:.2%})"


def notes(run_folder: Path) -> str:
    """Return the notes of the run."""
    return "\n".join(f"- {note}" for note in RunFolder.existing(run_folder).read().notes)


def picture(run_folder: Path, target: Path) -> None:
    """Save the first two figures of the report."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page(viewport={"width": 1080, "height": 900})
        page.goto((run_folder / "report.html").resolve().as_uri())
        page.wait_for_selector(".js-plotly-plot svg.main-svg")
        boxes = [page.locator("figure").nth(i).bounding_box() for i in (0, 1)]
        first, second = (box for box in boxes if box is not None)
        height = second["y"] + second["height"] - first["y"] + 12
        clip = {"x": first["x"] - 10, "y": first["y"] - 6, "width": first["width"] + 20, "height": height}
        page.screenshot(path=target, clip=clip, full_page=True)
        browser.close()


def main() -> None:
    """Run all commands and write the page."""
    adult, whole, cifar = run(ADULT), run(ACCURACY), run(CIFAR)
    picture(cifar, HERE / "cifar10-resnet20.png")
    picture(adult, HERE / "adult-logistic.png")
    versions = RunFolder.existing(cifar).read().provenance.versions
    with_versions = ", ".join(f"{name} {version}" for name, version in versions.items())
    text = (HERE / "first-audits.template.md").read_text(encoding="utf-8")
    parts = {
        "CIFAR_COMMAND": CIFAR.replace("\n", " \\\n   "),
        "ADULT_COMMAND": ADULT.replace("\n", " \\\n   "),
        "CIFAR_ACCURACY": overall(whole, "softmax_margin"),
        "ACCURACY_COMMAND": ACCURACY.replace("\n", " \\\n   "),
        "CIFAR_L2": table(cifar, "class", "deepfool:norm=l2"),
        "CIFAR_LINF": table(cifar, "class", "deepfool:norm=linf"),
        "CIFAR_NOTES": notes(cifar),
        "ADULT_ACCURACY": overall(adult, "exact_linear:norm=l2"),
        "ADULT_SEX": table(adult, "sex", "exact_linear:norm=l2"),
        "ADULT_RACE": table(adult, "race", "exact_linear:norm=l2"),
        "ADULT_CROSS": table(adult, "sex & race", "exact_linear:norm=l2"),
        "ADULT_NOTES": notes(adult),
        "VERSIONS": f"{with_versions}; {platform.machine()}",
    }
    for name, content in parts.items():
        text = text.replace("{{" + name + "}}", content)
    (HERE / "first-audits.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
