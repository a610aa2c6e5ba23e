"""Checks launch scripts and environments before a job spends its allocation. Executes nothing."""

from nccl_insight.advise.settings.lint.check import KINDS, lint_environment, lint_text
from nccl_insight.advise.settings.lint.fix import fix_text
from nccl_insight.advise.settings.lint.kinds import kind_of
from nccl_insight.advise.settings.lint.model import LintFinding, LintResult, Setting

__all__ = ["KINDS", "LintFinding", "LintResult", "Setting", "fix_text", "kind_of", "lint_environment", "lint_text"]
