"""Records of a store as states of a model: what both a corpus and a memory need of either.

Names are loaded when they are asked for: settings and keys need no model, and whoever needs no model loads no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from precog.records.form import RecordForm
    from precog.records.model_choice import ModelChoice
    from precog.records.origin import check_encoder
    from precog.records.settings import settings_from
    from precog.records.states import StateReader, check_backbone
else:
    _FILES = {
        "ModelChoice": "model_choice",
        "RecordForm": "form",
        "StateReader": "states",
        "check_backbone": "states",
        "check_encoder": "origin",
        "settings_from": "settings",
    }

    def __getattr__(name: str) -> object:
        if name not in _FILES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)


__all__ = ["ModelChoice", "RecordForm", "StateReader", "check_backbone", "check_encoder", "settings_from"]
