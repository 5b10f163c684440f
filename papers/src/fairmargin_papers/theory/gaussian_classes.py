"""Two round Gaussian classes in d dimensions and the linear classifiers that training gives them (Ma 2022)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Floats, Ints
from fairmargin.errors import InputError
from fairmargin_papers.theory.class_forms import ClassForms
from fairmargin_papers.theory.class_statements import class_statements
from fairmargin_papers.theory.parameters import Number, as_number, not_negative, plain, require, require_whole, together
from fairmargin_papers.theory.statement import Statement


@dataclass(frozen=True, slots=True, eq=False)
class GaussianClasses:
    """x | ± ~ N(±μ_±·1, σ_±² I_d), classified by sign(⟨1, x⟩ + b), with the b that training at some L∞ radius gives.

    By symmetry the best weights are 1 = (1, …, 1), naturally and against an L∞ adversary that leaves the means apart;
    only b is trained. An adversary of radius ε takes dε off the score of everyone, so at b the robust errors are

        R₊ = Φ(−(b + d(μ₊−ε)) / (√d σ₊)),   R₋ = Φ((b − d(μ₋−ε)) / (√d σ₋)).

    Every parameter and every radius is a number or an array; arrays broadcast. If all are numbers, results are Python
    floats.

    Parameters
    ----------
    mean_plus, mean_minus
        μ₊ and μ₋, both above 0: class + is centred at μ₊·1 and class − at −μ₋·1.
    std_plus, std_minus
        σ₊ and σ₋, above 0.
    dim
        d, a whole number of at least 1.
    prior
        α, the probability of class +, inside (0, 1).

    References
    ----------
    X. Ma, Z. Wang, W. Liu, "On the Tradeoff Between Robustness and Fairness", NeurIPS 2022, Section 5; corrected, see
    `statements`.

    Examples
    --------
    >>> classes = GaussianClasses(mean_plus=1.0, mean_minus=1.0, std_plus=1.0, std_minus=2.0, dim=10)
    >>> plus, minus = classes.class_errors(train_radius=0.4, test_radius=0.4)
    >>> round(plus, 4), round(minus, 4)
    (0.054, 0.137)
    >>> [f"{value:.2e}" for value in classes.vcra(np.array([0.0, 0.2, 0.4]), 0.4)]  # falls, then rises
    ['8.92e-04', '4.89e-05', '1.72e-03']
    """

    mean_plus: npt.ArrayLike
    mean_minus: npt.ArrayLike
    std_plus: npt.ArrayLike
    std_minus: npt.ArrayLike
    dim: npt.ArrayLike
    prior: npt.ArrayLike = 0.5

    def __post_init__(self) -> None:
        given = {field.name: as_number(getattr(self, field.name), field.name) for field in fields(self)}
        positive = {
            **dict.fromkeys(("mean_plus", "mean_minus"), "must be above 0 (only the sum of both means matters)"),
            **dict.fromkeys(("std_plus", "std_minus"), "must be a standard deviation above 0"),
        }
        for name, problem in positive.items():
            require(given[name] > 0, given[name], name, problem)
        dim, prior = given["dim"], given["prior"]
        require((dim >= 1) & (dim == np.floor(dim)), dim, "dim", "must be a whole number of at least 1")
        require((prior > 0) & (prior < 1), prior, "prior", "must lie strictly between 0 and 1")
        together(given)  # raises an error here if they do not broadcast
        for name, array in given.items():
            number = plain(array)
            object.__setattr__(self, name, int(number) if name == "dim" and isinstance(number, float) else number)

    @property
    def log_ratio(self) -> Number:
        """κ = ln(ασ₋ / ((1−α)σ₊)); the paper's "positive constant" K is dκ, and is neither constant nor positive.

        >>> GaussianClasses(1.0, 1.0, 1.0, 1.0, dim=10).log_ratio
        0.0
        """
        return plain(self._forms().log_ratio)

    def bias(self, train_radius: npt.ArrayLike = 0.0) -> Number:
        """Return the b that minimises the robust error αR₊ + (1−α)R₋ at the training radius; 0 is natural training.

        With M = μ₊+μ₋−2ε, κ as in `log_ratio`, σ̄ = (σ₊+σ₋)/2 and δ = (σ₋−σ₊)/(σ₊+σ₋):

            P = (√d·M/σ̄ + √(d·M²/σ̄² + 8κδ)) / 2,   b = √d·σ̄·(2κ/P − δP)/2 − d(μ₊−μ₋)/2,

        at equal standard deviations σ²κ/M − d(μ₊−μ₋)/2. Guarantee: the global minimum, not any stationary point; inf
        where always predicting + is best, or −inf where always predicting −. No cancellation at σ₊ → σ₋ or large d.

        A radius of (μ₊+μ₋)/2 or more, where the adversary can swap the means (M ≤ 0), is allowed: the minimum is
        well-defined there too, and at equal standard deviations it is inf or −inf. If several b are equally good, it is
        the midpoint −d(μ₊−μ₋)/2 at M = 0, where all are, and inf at M < 0, where both constants are.

        >>> GaussianClasses(1.0, 0.5, 1.0, 1.0, dim=10).bias()
        -2.5
        >>> GaussianClasses(1.0, 0.5, 1.0, 1.0, dim=10, prior=0.9).bias(train_radius=0.8)
        inf
        """
        (train,) = self._radii({"train_radius": train_radius})
        return plain(self._forms().bias(train))

    def class_errors(self, train_radius: npt.ArrayLike, test_radius: npt.ArrayLike) -> tuple[Number, Number]:
        """Return R₊ and R₋, the robust errors at `test_radius` of the classifier trained at `train_radius`.

        >>> GaussianClasses(1.0, 1.0, 1.0, 1.0, dim=1).class_errors(0.0, test_radius=1.0)
        (0.5, 0.5)
        """
        train, test = self._radii({"train_radius": train_radius, "test_radius": test_radius})
        plus, minus = self._forms().errors(train, test)
        return plain(plus), plain(minus)

    def risk(self, train_radius: npt.ArrayLike, test_radius: npt.ArrayLike) -> Number:
        """Return αR₊ + (1−α)R₋, the robust error of all at `test_radius`, which is least if both radii are equal."""
        train, test = self._radii({"train_radius": train_radius, "test_radius": test_radius})
        return plain(self._forms().risk(train, test))

    def vcra(self, train_radius: npt.ArrayLike, test_radius: npt.ArrayLike) -> Number:
        """Return the variance of class-wise robust accuracy, ¼(R₊ − R₋)² (Definition 5.4).

        It is 0 for a balanced pair of equal standard deviations, however it is trained.

        >>> GaussianClasses(1.0, 2.0, 1.0, 1.0, dim=10).vcra(0.3, 0.4)
        0.0
        """
        train, test = self._radii({"train_radius": train_radius, "test_radius": test_radius})
        return plain(np.asarray(self._forms().gap(train, test) ** 2 / 4))

    def vca(self, train_radius: npt.ArrayLike = 0.0) -> Number:
        """Return the variance of class-wise natural accuracy: `vcra` at test radius 0."""
        return self.vcra(train_radius, 0.0)

    def mean_distances(self, train_radius: npt.ArrayLike = 0.0) -> tuple[Number, Number]:
        """Return Rob(+) and Rob(−), the mean L∞ distance of each class to the boundary, 0 for misclassified samples.

        A sample's distance is max(0, ±(⟨1, x⟩ + b)/d), so its mean is (σ/√d)·(zΦ(z) + φ(z)) with the natural margin
        z = Φ⁻¹(1−R). inf for a class that is always predicted.

        >>> [round(mean, 4) for mean in GaussianClasses(1.0, 1.0, 1.0, 2.0, dim=10).mean_distances()]
        [0.7354, 1.2711]
        """
        (train,) = self._radii({"train_radius": train_radius})
        plus, minus = self._forms().mean_distances(train)
        return plain(plus), plain(minus)

    def statements(self, train_radius: npt.ArrayLike, test_radius: npt.ArrayLike) -> tuple[Statement, ...]:
        """Evaluate the printed premise and conclusion of Theorems 5.2, 5.3, 5.5, 5.6, 5.7, B.6 and 6.1.

        Theorems 5.2 and 5.3 have two statements each. Theorem 5.5 is followed by a weaker form of it that is true, and
        by the statement of Section 5.3 on the average. Conclusions are checked on the closed forms; those about growth
        with the training radius are checked on a grid of radii.

        >>> classes = GaussianClasses(1.0, 1.0, 1.0, 2.0, dim=10)
        >>> [said.verdict for said in classes.statements(0.4, test_radius=0.4) if said.name == "Theorem 5.5"]
        ['refuted']
        """
        train, test = self._radii({"train_radius": train_radius, "test_radius": test_radius})
        return class_statements(self._forms(), train, test)

    def sample(self, n: int, seed: int) -> tuple[Floats, Ints]:
        """Return n independent samples: x of shape (n, d), and y, which is −1 or +1. A seed determines them.

        >>> x, y = GaussianClasses(1.0, 1.0, 1.0, 2.0, dim=3).sample(5, seed=0)
        >>> x.shape, sorted(set(y.tolist()))
        ((5, 3), [-1, 1])
        """
        forms = self._forms()
        if forms.shape:
            raise InputError(f"`sample` needs one set of parameters; these are arrays of shape {forms.shape}.")
        require_whole(n, "n", 1)
        require_whole(seed, "seed", 0)
        random = np.random.default_rng(seed)
        plus = random.random(n) < forms.prior
        centre = np.where(plus, forms.mean_plus, -forms.mean_minus)
        std = np.where(plus, forms.std_plus, forms.std_minus)
        x = centre[:, None] + std[:, None] * random.standard_normal((n, int(forms.dim)))
        return x, np.where(plus, 1, -1).astype(np.int64)

    def _forms(self) -> ClassForms:
        return ClassForms(*(np.asarray(getattr(self, field.name), dtype=np.float64) for field in fields(self)))

    def _radii(self, radii: Mapping[str, npt.ArrayLike]) -> list[Floats]:
        """Check radii by themselves and against the shape of the parameters."""
        given = {name: not_negative(radius, name) for name, radius in radii.items()}
        together({field.name: np.asarray(getattr(self, field.name)) for field in fields(self)} | given)
        return list(given.values())
