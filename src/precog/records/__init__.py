"""Records of a store as states of a model: what both a corpus and a memory need of either."""

from precog.records.form import RecordForm, StateReader
from precog.records.model_choice import ModelChoice
from precog.records.origin import check_backbone, check_encoder
from precog.records.settings import settings_from

__all__ = ["ModelChoice", "RecordForm", "StateReader", "check_backbone", "check_encoder", "settings_from"]
