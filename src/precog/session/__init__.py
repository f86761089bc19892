"""One conversation: a user's memory and a corpus, searched together, answered from their states."""

from precog.session.reply import REMEMBERED, Reply, SessionEvidence, Start
from precog.session.session import Session, SessionOptions

__all__ = ["REMEMBERED", "Reply", "Session", "SessionEvidence", "SessionOptions", "Start"]
