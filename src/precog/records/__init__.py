"""Records of a store as states of a model: what both a corpus and a memory need of either."""

from precog.records.form import RecordForm, StateReader
from precog.records.model_choice import ModelChoice

__all__ = ["ModelChoice", "RecordForm", "StateReader"]
