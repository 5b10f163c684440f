"""Ma's tables: every cell of the sweep and every class, ours beside what is printed for larger networks."""

from collections.abc import Mapping

from fairmargin.core.arrays import Floats
from fairmargin_papers.ma.networks_rows import CHANGES, TEST
from fairmargin_papers.ma.sweep_measures import Swept, mean_accuracy, vcra
from fairmargin_papers.ma.sweep_study import ATTACKS, FAT, FGSM, MADRY, TESTS, TRADES
from fairmargin_papers.shared.paper import Table
from fairmargin_papers.shared.trained import over_seeds

# Tables 3 and 4, ResNet-18, by ε_train; FGSM, PGD-20 and C&W, each at 16/255 and 20/255.
_VCRA: Mapping[str, Mapping[int, tuple[float, ...]]] = {
    MADRY: {
        4: (1.90, 1.31, 0.10, 0.02, 0.11, 0.02),
        8: (2.34, 1.99, 0.50, 0.16, 0.61, 0.19),
        12: (3.12, 2.53, 0.98, 0.35, 1.09, 0.42),
        16: (3.52, 2.99, 1.28, 0.48, 1.38, 0.60),
    },
    FAT: {
        4: (1.76, 1.28, 0.07, 0.01, 0.08, 0.01),
        8: (2.18, 1.69, 0.46, 0.12, 0.52, 0.14),
        12: (2.99, 2.47, 0.84, 0.35, 0.90, 0.38),
        16: (3.32, 2.90, 1.06, 0.40, 1.22, 0.51),
    },
}
_RATE: Mapping[str, Mapping[int, tuple[float, ...]]] = {
    MADRY: {
        4: (29.04, 21.74, 3.54, 1.12, 3.61, 1.05),
        8: (39.00, 32.13, 11.23, 4.96, 12.14, 5.35),
        12: (41.99, 35.71, 19.43, 10.03, 19.39, 10.53),
        16: (42.97, 37.34, 22.50, 12.86, 22.03, 12.65),
    },
    FAT: {
        4: (29.33, 22.65, 3.11, 1.31, 3.23, 0.99),
        8: (38.57, 32.26, 11.29, 5.26, 12.32, 5.48),
        12: (42.77, 36.71, 19.74, 10.97, 19.88, 11.48),
        16: (43.40, 37.98, 22.79, 13.11, 22.21, 12.99),
    },
}
_MISPRINTS = (
    "In print, Table 1 has 21.71 and 42.94 where Table 4 has 21.74 and 42.97 (Madry, FGSM), and its column of "
    "WRN-32-10 under FGSM 20/255 repeats PGD-20 16/255 in three of four rows."
)


def cells_table(swept: Swept) -> Table:
    """Attack × ε_test × ε_train: VCRA and robust accuracy of each method, ours and printed."""
    methods = (MADRY, FAT, TRADES)
    columns = ["attack", "ε_test", "ε_train"]
    for measure in ("VCRA ·10⁻²", "robust %"):
        for method in methods:
            columns += [f"{measure}, {method}"] + ([f"{method} printed"] if method in _VCRA else [])
    rows = []
    for attack in ATTACKS:
        for test in swept.sweep.tests:
            for radius in swept.sweep.radii[MADRY]:
                cells = [attack, f"{test}/255", f"{radius}/255"]
                place = 2 * list(ATTACKS).index(attack) + TESTS.index(test)
                for printed, digits in ((_VCRA, 2), (_RATE, 1)):
                    for method in methods:
                        cells.append(_ours(swept, (method, radius), (attack, test), digits, spread=printed is _VCRA))
                        cells += [f"{printed[method][radius][place]:.2f}"] if method in printed else []
                rows.append(tuple(cells))
    caption = (
        f"Every cell: {swept.sweep.network} on {swept.sweep.title}, mean over {len(swept.sweep.seeds)} seeds ± half of "
        f"its 95 % interval; printed: ResNet-18 on CIFAR-10 (Tables 3 and 4). {_MISPRINTS}"
    )
    return Table("cells", caption, tuple(columns), tuple(rows))


def _ours(swept: Swept, trained: tuple[str, int], attacked: tuple[str, int], digits: int, *, spread: bool) -> str:
    method, radius = trained
    if radius not in swept.sweep.radii[method]:
        return "–"
    shares = swept.at(method, *attacked)[:, swept.sweep.radii[method].index(radius)]
    values: Floats = 100 * (vcra(shares, swept.sizes) if spread else mean_accuracy(shares))
    return over_seeds(values).text(digits=digits)


def classes_table(swept: Swept) -> Table:
    """Robust accuracy by class and ε_train under FGSM, and its change, ours and printed."""
    shares, radii = 100 * swept.at(MADRY, FGSM, TEST), swept.sweep.radii[MADRY]
    printed = {place: points for place, _, points in CHANGES.values()}
    rows = [
        (
            name,
            *(f"{value:.1f}" for value in shares[:, :, place].mean(axis=0)),
            over_seeds(shares[:, -1, place] - shares[:, 0, place]).text(digits=1),
            printed.get(place, "–"),
        )
        for place, name in enumerate(swept.classes)
    ]
    caption = (
        f"Robust accuracy (%) by class of Madry’s method under FGSM {TEST}/255, means over seeds, and the change from "
        f"ε_train = {radii[0]}/255 to {radii[-1]}/255 in points ± half of its 95 % interval; printed: ResNet-50 "
        "(Table 2), for four classes of CIFAR-10."
    )
    columns = ("class", *(f"ε_train {radius}/255" for radius in radii), "change", "printed")
    return Table("classes", caption, columns, tuple(rows))
