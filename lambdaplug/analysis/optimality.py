"""Is a model a local optimum of a measure? A Monte Carlo certificate (Donmez, Svore, Burges 2009, section 5)."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..checking import integer, progress_bar
from ..errors import LambdaplugError
from ..queries import Array
from ..tables import Report
from .curves import Curves
from .landscape import Landscape, Trial, unit_directions

__all__ = ["SINGLE_STEPS", "STEPS", "Optimality", "Rule", "Rules", "confidence_of", "directions_for", "examine"]

Rule = Literal["significant", "strict"]

STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # times the norm of all weights
SINGLE_STEPS = (-2.0, -1.0, -0.5, -0.1, 0.1, 0.5, 1.0, 2.0)  # times the root mean square of a weight
TOLERANCE = 1e-12  # the same values summed in another order are no improvement


class Rules(NamedTuple):
    """What an improvement is, and of how many directions; see ``lp.analysis.local_optimality``."""

    rule: Rule = "significant"
    level: float = 0.01
    share: float = 0.01


def directions_for(share: float = 0.01, confidence: float = 0.99) -> int:
    """How many directions it takes to say that fewer than this share improve: ln(1 - confidence) / ln(1 - share).

    >>> directions_for(0.01, 0.99), directions_for(0.05, 0.95)
    (459, 59)
    """
    return math.ceil(math.log(1.0 - confidence) / math.log1p(-share))


def confidence_of(directions: int, share: float = 0.01) -> float:
    """With which confidence fewer than this share of directions improve, if none of so many did.

    >>> round(confidence_of(459), 4)
    0.9901
    """
    return 1.0 - (1.0 - share) ** directions


@dataclass(frozen=True, repr=False)
class Optimality(Report):
    """What ``lp.analysis.local_optimality`` found; prints as a report.

    Attributes
    ----------
    measure : str
        What was looked at.
    trial : Trial
        All directions at all steps: arrays [direction, step].
    steps : array
        Times ``norm``.
    single, single_steps, single_weights : Trial and arrays
        One weight at a time: by so many root mean squares of a weight, and which ones.
    guided : Trial
        Along the lambda forces of the measure, which are no random direction.
    weights, norm : int and float
        How many, and their norm.
    curves : Curves
        The measure along some directions, from -eta to eta, and over all directions.
    share, rule, level, seed : float, str, float and int
        As asked for.
    seconds : float
        How long it took.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=20, documents=8, features=5)
    >>> model = lp.LGBMRanker(objective="ndcg", n_estimators=4, verbose=-1).fit(data.X, data.labels, group=data.group)
    >>> report = lp.analysis.local_optimality(model.booster_, *data, "map", 5, single_weights=0, progress=False)
    >>> report.directions, report.measure
    (5, 'map')
    """

    measure: str
    trial: Trial  # all directions at all steps
    steps: Array  # times ``norm``
    single: Trial  # one weight at a time
    single_steps: Array  # times the root mean square of a weight
    single_weights: npt.NDArray[np.int64]  # which ones
    guided: Trial  # along the lambda forces of the measure, which are no random direction
    weights: int
    norm: float  # of the weights
    curves: Curves  #: the measure along some directions, from -eta to eta, and over all directions
    share: float
    rule: Rule
    level: float
    seed: int
    seconds: float

    @property
    def value(self) -> float:
        """The measure at the model's own weights."""
        return self.trial.value

    @property
    def directions(self) -> int:
        return len(self.trial.change)

    @property
    def improves(self) -> npt.NDArray[np.bool_]:
        """By the rule: ``[direction, step]``."""
        return self._better(self.trial, self.rule)

    @property
    def single_improves(self) -> npt.NDArray[np.bool_]:
        """The same of the weights moved alone: ``[weight, step]``."""
        return self._better(self.single, self.rule)

    def _better(self, trial: Trial, rule: Rule) -> npt.NDArray[np.bool_]:
        higher: npt.NDArray[np.bool_] = trial.change > TOLERANCE * max(1.0, abs(trial.value))
        if rule == "strict" or not trial.change.size:
            return higher
        return higher & (trial.t > self._bound(trial))

    def _bound(self, trial: Trial) -> float:
        """What t must exceed. Bonferroni: the chance of any false alarm among all directions and steps is the level."""
        from scipy.special import stdtrit

        share = self.level / max(trial.change.size, 1)
        return float(stdtrit(trial.queries - 1, 1.0 - share)) if trial.queries > 1 else math.inf

    @property
    def detectable(self) -> Array:
        """At each step, from about which change on an improvement is significant: the test's power."""
        errors: Array = self.trial.error.mean(axis=0)
        return self._bound(self.trial) * errors

    @property
    def improving(self) -> int:
        """How many of the directions improve the measure, at some step, by the rule."""
        return int(self.improves.any(axis=1).sum())

    @property
    def optimum(self) -> bool:
        """No direction improves the measure, by the rule."""
        return self.improving == 0

    @property
    def confidence(self) -> float:
        """Of the verdict. An optimum: that fewer than ``share`` of all directions improve. None: that one really does.

        An improvement beyond the significance level holds with confidence 1 - level for queries like these; under the
        strict rule it is a fact about these queries.
        """
        if self.optimum:
            return confidence_of(self.directions, self.share)
        return 1.0 if self.rule == "strict" else 1.0 - self.level

    @property
    def share_bound(self) -> float:
        """With confidence 1 - level, at most this share of all directions improves (Clopper, Pearson)."""
        from scipy.special import betaincinv

        n, k = self.directions, self.improving
        return 1.0 if k == n else float(betaincinv(k + 1, n - k, 1.0 - self.level))

    @property
    def best_improvement(self) -> float:
        """The largest change of the mean measure found: below 0 where every direction loses at every step."""
        return float(self.trial.change.max())

    @property
    def best(self) -> tuple[int, int]:
        """Direction and step of the largest change."""
        direction, step = np.unravel_index(int(self.trial.change.argmax()), self.trial.change.shape)
        return int(direction), int(step)

    @property
    def best_step(self) -> float:
        """Of the largest change, times the norm of the weights."""
        return float(self.steps[self.best[1]])

    @property
    def best_direction(self) -> Array:
        """Of the largest change: a unit vector over all weights. ``weights + best_step * norm * best_direction``."""
        return self.direction(self.best[0])

    def direction(self, number: int) -> Array:
        """The unit vector of a direction, over all weights."""
        return unit_directions(self.weights, [number], self.seed)[:, 0]

    @property
    def _how(self) -> str:
        return "" if self.rule == "strict" else " significantly"

    def _before(self) -> list[str]:
        verdict = "a local optimum" if self.optimum else "NOT a local optimum"
        span = f"{self.steps.min():g} to {self.steps.max():g} times the norm of the {self.weights} weights"
        lines = [f"{self.measure} {self.value:.4f} over {self.trial.queries} queries: {verdict}"]
        if self.optimum:
            lines += [
                f"None of {self.directions} random directions improves it{self._how}, at steps of {span}:",
                f"with confidence {self.confidence:.4g}, fewer than {100 * self.share:g} % of directions do.",
            ]
            higher = int(self._better(self.trial, "strict").any(axis=1).sum())
            if higher:
                lines.append(
                    f"{higher} are higher at some step by chance or by little: by the strict rule it is no optimum."
                )
        else:
            lines += [
                f"{self.improving} of {self.directions} random directions improve it{self._how}, at steps of {span};",
                f"the best by {self.best_improvement:+.5f} at {self.best_step:g} (direction {self.best[0]}).",
                f"With confidence {1 - self.level:g}, at most {100 * self.share_bound:.3g} % of all directions improve.",
            ]
        return lines

    def _cells(self) -> list[list[str]]:
        strict, sure = self._better(self.trial, "strict"), self._better(self.trial, "significant")
        cells = [["step", "higher", "significant", "mean change", "largest change", "significant from"]]
        for index, step in enumerate(self.steps.tolist()):
            change = self.trial.change[:, index]
            counts = [f"{found[:, index].sum():d}" for found in (strict, sure)]
            changes = [f"{value:+.6f}" for value in (change.mean(), change.max(), self.detectable[index])]
            cells.append([f"{step:g}", *counts, *changes])
        return cells

    def _after(self) -> list[str]:
        lines = []
        if self.single.change.size:
            higher = self._better(self.single, "strict").any(axis=1).sum()
            sure = self._better(self.single, "significant").any(axis=1).sum()
            lines.append(
                f"One weight at a time: of {len(self.single_weights)} moved alone by up to "
                f"{np.abs(self.single_steps).max():g} root mean squares, {higher} can raise it, {sure} significantly."
            )
        if self.guided.change.size:
            rise, at = float(self.guided.change.max()), float(self.steps[int(self.guided.change.argmax())])
            surely = ", significantly" if self._better(self.guided, "significant").any() else ""
            lines.append(
                "Along the lambda forces, the one direction that is not random, it "
                + (
                    f"rises by {rise:+.5f} at {at:g}{surely}: lp.analysis.polish goes on from here."
                    if rise > TOLERANCE
                    else "does not rise either."
                )
            )
        return [*lines, f"{self.seconds:.1f} s"]

    def plot(self, ax: Any = None) -> Any:
        """The measure over the step, along some directions and over all of them (the papers' Figures 1-4 and 6).

        Returns Matplotlib's axes.
        """
        x = self.curves.iterations
        low, high = self.curves["lowest"], self.curves["highest"]
        many = f"of {self.directions} random directions"
        found = f"none {many} improves" if self.optimum else f"{self.improving} {many} improve"
        verdict = f"{'a' if self.optimum else 'not a'} local optimum,\n{found} it{self._how}"
        with plotting.drawing(ax) as ax:
            ax.fill_between(x, low, high, color="0.85", label=f"all {self.directions} directions, forward")
            for name, values in self.curves.items():
                if name.startswith("direction"):
                    ax.plot(x, values, ".-", label=name)
            ax.axhline(self.value, color="0.4", linestyle=":", linewidth=1, label="the model's value")
            if self.rule == "significant":  # what the verdict asks of a curve
                bound = np.concatenate([self.detectable[::-1], [0.0], self.detectable])
                ax.plot(x, self.value + bound, "k--", linewidth=1, label="significant from about here")
            ax.set_xscale("symlog", linthresh=float(self.steps.min()))
            ax.set(xlabel="step / norm of the weights", ylabel=self.measure)
            ax.set_title(f"{self.measure} {self.value:.4f}: {verdict}")
            plotting.legend(ax)
        return ax

    def plot_weights(self, ax: Any = None, count: int = 4) -> Any:
        """The measure as single weights move, for those that change it most; returns Matplotlib's axes."""
        x = np.append(self.single_steps, 0.0)
        order = np.argsort(x)
        with plotting.drawing(ax) as ax:
            for row in np.argsort(-np.ptp(self.single.change, axis=1), kind="stable")[:count]:
                values = self.single.value + np.append(self.single.change[row], 0.0)
                ax.plot(x[order], values[order], ".-", label=f"weight {self.single_weights[row]}")
            ax.set(xlabel="change / root mean square of the weights", ylabel=self.measure)
            ax.set_title(f"{self.measure} as single weights move: those that change it most")
            plotting.legend(ax)
        return ax


def examine(
    landscape: Landscape,
    directions: int = 459,
    steps: Sequence[float] = STEPS,
    seed: int = 0,
    progress: bool = True,
    rules: Rules = Rules(),  # noqa: B008 -- it never changes
    single_weights: int = 100,
    single_steps: Sequence[float] = SINGLE_STEPS,
    shown: int = 4,
) -> Optimality:
    """The certificate for the weights of a landscape's model; see ``lp.analysis.local_optimality`` for what it means.

    Parameters
    ----------
    landscape : Landscape
        A measure around the weights of a model.
    directions, steps, seed, progress, single_weights, single_steps, shown : optional
        As for ``lp.analysis.local_optimality``.
    rules : Rules
        ``rule``, ``level`` and ``share`` of ``lp.analysis.local_optimality``.

    Returns
    -------
    Optimality
        The report.

    Examples
    --------
    >>> from lambdaplug.analysis import Landscape, LeafModel
    >>> from lambdaplug.queries import Queries
    >>> leaves = np.array([[0], [1]], np.int32)  # two rows, each in a leaf of its own of one tree
    >>> model = LeafModel(np.array([0.0, 1.0]), 1, lambda first, last: (np.arange(2.0)[first:last], leaves[first:last]))
    >>> landscape = Landscape(model, Queries([0, 1], [2]), "ndcg")
    >>> report = examine(landscape, directions=5, steps=[0.1], single_weights=0, progress=False)
    >>> report.optimum, report.value
    (True, 1.0)
    """
    started = time.perf_counter()
    _check(directions, steps, rules, single_weights)
    weights = landscape.model.weights
    norm = float(np.sqrt(np.square(weights).sum()))
    if norm == 0.0:
        raise LambdaplugError("local_optimality: all weights are 0, so steps have no scale: train the model first.")
    size = len(weights)
    forward = np.sort(np.asarray(steps, dtype=np.float64))  # near ones first: each ranking starts from the last
    alone = np.asarray(single_steps, dtype=np.float64)
    chosen = np.sort(np.random.default_rng(seed).permutation(size)[:single_weights])
    shown = min(shown, directions)
    total = (directions + shown + 2) * len(forward) + len(chosen) * len(alone)

    def random(first: int, last: int) -> Array:
        return norm * unit_directions(size, range(first, last), seed)

    def one_each(first: int, last: int) -> Array:
        table = np.zeros((size, last - first))
        table[chosen[first:last], np.arange(last - first)] = norm / math.sqrt(size)
        return table

    with progress_bar(total, f"{landscape.measure}: local optimality", progress) as tick:
        trial = landscape.along(random, directions, forward.tolist(), tick=tick)
        best = int(trial.change.max(axis=1).argmax())
        numbers = [*range(shown), *([best] if best >= shown else [])]
        back = landscape.along(
            lambda first, last: norm * unit_directions(size, numbers[first:last], seed),
            len(numbers),
            (-forward).tolist(),
            tick=tick,
        )
        uphill = norm * landscape.lambda_direction()[:, None]
        guided = landscape.along(lambda _first, _last: uphill, int(uphill.any()), forward.tolist(), tick=tick)
        single = landscape.along(one_each, len(chosen), alone.tolist(), tick=tick)
    found: dict[str, Any] = {"trial": trial, "single": single, "guided": guided}
    asked: dict[str, Any] = {"steps": forward, "single_steps": alone, "single_weights": chosen, "seed": seed}
    return Optimality(
        measure=str(landscape.measure),
        weights=size,
        norm=norm,
        curves=_curves(trial, back, forward, numbers, best),
        **{**found, **asked, **rules._asdict()},
        seconds=time.perf_counter() - started,
    )


def _curves(trial: Trial, back: Trial, steps: Array, numbers: list[int], best: int) -> Curves:
    """Some directions both ways, all of them forward."""
    names = [f"direction {number}" + (" (best)" if number == best else "") for number in numbers]
    backward = (back.value + back.change[:, ::-1]).T.tolist()
    rows: list[dict[str, float]] = [dict(zip(names, values, strict=True)) for values in backward]
    rows.append(dict.fromkeys([*names, "lowest", "mean", "highest"], trial.value))
    for index in range(len(steps)):
        values = trial.value + trial.change[:, index]
        over_all = {"lowest": values.min(), "mean": values.mean(), "highest": values.max()}
        rows.append(
            dict(zip(names, values[numbers].tolist(), strict=True)) | {k: float(v) for k, v in over_all.items()}
        )
    return Curves(np.concatenate([-steps[::-1], [0.0], steps]), rows, over="step")


def _check(directions: int, steps: Sequence[float], rules: Rules, single_weights: int) -> None:
    rule, level, share = rules
    integer(directions, "directions")
    values = np.asarray(steps, dtype=np.float64)
    if values.ndim != 1 or not values.size or not (np.isfinite(values).all() and (values > 0).all()):
        raise LambdaplugError(f"steps: expected numbers above 0, as shares of the norm of the weights; got {steps!r}.")
    if not 0 < share < 1 or not 0 < level < 1:
        raise LambdaplugError(f"share and level: expected numbers between 0 and 1, got {share!r} and {level!r}.")
    if rule not in ("significant", "strict"):
        raise LambdaplugError(f"rule: expected 'significant' or 'strict', got {rule!r}.")
    integer(single_weights, "single_weights", 0, purpose=", how many weights to move alone")
