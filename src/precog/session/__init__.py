"""One conversation: a user's memory and a corpus, searched together, answered from their states."""

from precog.session.reply import Reply, SessionEvidence, Start
from precog.session.session import Session, SessionOptions

__all__ = ["Reply", "Session", "SessionEvidence", "SessionOptions", "Start"]
