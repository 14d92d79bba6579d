"""Verdicts from trials: the estimator, verdicts, marks, differences, and their wording."""
