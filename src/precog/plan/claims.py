"""Every number of the paper that follows from others, by table, figure and section: printed, computed, and why.

Scores that have to be measured are not here; their differences are.
"""

from precog.plan.claim import Claim
from precog.plan.claims_of_appendices import claims_of_appendices
from precog.plan.claims_of_scores import claims_of_scores
from precog.plan.claims_of_text import claims_of_text
from precog.plan.load_table import load_claims
from precog.plan.paper import PAPER, Paper


def claims(paper: Paper = PAPER) -> list[Claim]:
    """One row for every printed number; those that a table, figure or section repeats stand there once.

    Args:
        paper: the constants; others show what depends on what.
    """
    return [*claims_of_text(paper), *claims_of_scores(paper), *claims_of_appendices(paper), *load_claims(paper)]
