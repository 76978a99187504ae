"""What an objective does to a ranking, in numbers and plots."""

from .lambdas import (
    Agreement,
    Diagnostic,
    EffectivePairs,
    ForceByLabel,
    Measured,
    RankChanges,
    TopLabels,
    effective_pairs,
    force_by_label,
    lambda_agreement,
    rank_changes,
    top_labels,
)

__all__ = [
    "Agreement",
    "Diagnostic",
    "EffectivePairs",
    "ForceByLabel",
    "Measured",
    "RankChanges",
    "TopLabels",
    "effective_pairs",
    "force_by_label",
    "lambda_agreement",
    "rank_changes",
    "top_labels",
]
