"""What NCCL's model expects of a run's communicators."""

from nccl_insight.facts.figures.expected import Band, Prediction, predictions

__all__ = ["Band", "Prediction", "predictions"]
