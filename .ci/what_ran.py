"""Says whether the tests that need a browser or ../shared ran; fails in CI if they were skipped without need.

Usage: python .ci/what_ran.py JUNIT_XML SUMMARY_FILE
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")  # as in tests/stories/conftest.py
NEEDS = {  # the mark of the tests, and whether what they need is here
    "browser": any(map(shutil.which, CHROMIUMS)),
    "shared": (ROOT.parent / "shared").is_dir(),
}


def outcomes(report: Path) -> dict[tuple[str, str], str]:
    """Per test, "passed", "failed", "expected to fail", or "skipped: why"."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        found[case.get("classname", ""), case.get("name", "")] = outcome(case)
    return found


def outcome(case: ElementTree.Element) -> str:
    """What became of one test. An element without children is false, hence `is not None`."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skip = case.find("skipped")
    if skip is None:
        return "passed"
    return "expected to fail" if skip.get("type") == "pytest.xfail" else f"skipped: {skip.get('message', '')}"


def marked(mark: str) -> list[tuple[str, str]]:
    """The tests that carry a mark, named as in the report."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", f"{mark} and not slow"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    names = []
    for line in listing.splitlines():
        file, separator, rest = line.partition("::")
        if separator and file.endswith(".py"):
            bare, bracket, parameters = rest.partition("[")  # a parameter may hold :: too
            *classes, name = bare.split("::")
            module = file.removesuffix(".py").replace("/", ".")
            names.append((".".join([module, *classes]), name + bracket + parameters))
    return names


def main(report: Path, summary: Path) -> int:
    """Print a line for each need, write the summary, and answer with the exit code."""
    if not report.is_file():
        print("pytest wrote no report: it did not get as far as running tests.")
        return 1
    found = outcomes(report)
    code = 0
    for mark, is_here in NEEDS.items():
        tests = marked(mark)
        skipped = [test for test in tests if found.get(test, "skipped: not run").startswith("skipped")]
        where = "is here" if is_here else "is not here"
        print(f"{mark} tests: {len(tests) - len(skipped)} ran, {len(skipped)} skipped (what they need {where})")
        for reason in sorted({found.get(test, "skipped: not run") for test in skipped}):
            print(f"  {reason}")
        if skipped and is_here and os.environ.get("CI") == "true":
            print(f"  In CI this is a failure: what `{mark}` tests need is here, so they must run.")
            code = 1
    states = [state.split(":")[0] for state in found.values()]
    print(f"tests that are expected to fail, and do: {states.count('expected to fail')}")
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("passed", "failed", "skipped"))
    summary.write_text(f"ci: {counts}\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
