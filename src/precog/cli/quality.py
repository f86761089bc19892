"""``--quality`` of commands that measure: how texts become states; and, for all, what studying made of them."""

from dataclasses import dataclass

from precog.backbones.protocol import Backbone
from precog.cli.output import counted, human_seconds, out, shown
from precog.refine.choice import FAST, StudyLimits, encode_mode_for, quality_of
from precog.refine.quality import study_settings
from precog.refine.study import StudySettings
from precog.refine.tally import StudyTally


@dataclass(frozen=True)
class Quality:
    """What was asked for.

    Attributes:
        name: ``fast``, ``twice`` or ``study``.
        encode_mode: how paragraphs are read.
        limits: how long a state is studied.
    """

    name: str
    encode_mode: str
    limits: StudyLimits

    @classmethod
    def of(cls, quality: str | None, encode: str | None, steps: int | None, seconds: float | None) -> "Quality":
        """Of the options, before a model is loaded.

        Raises:
            UsageError: they contradict each other, or one is out of range.
        """
        encode_mode = encode_mode_for(quality, encode) or "once"
        name = quality or (FAST if encode is None else quality_of(encode))
        return cls(name, encode_mode, StudyLimits.of({"study_steps": steps, "study_seconds": seconds}, name))

    def study(self, backbone: Backbone) -> StudySettings | None:
        """How states of a model are studied; None where they are only read.

        Raises:
            UsageError, ModelError: the model cannot be studied with.
        """
        return study_settings(backbone, self.name, self.limits.on(backbone.device.type))

    def told(self, report: dict[str, object], tally: StudyTally) -> dict[str, object]:
        """A report that says what was asked for and what came of it."""
        return {**report, "quality": self.name, **({"refining": tally.to_json()} if tally.studied else {})}


def print_tally(tally: StudyTally) -> None:
    """What studying made of states, for people; nothing where none was studied."""
    if tally.studied:
        kept = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.kept.items()))
        each = human_seconds(tally.seconds / tally.studied)
        said = f"{counted(tally.studied, 'state')} studied, {tally.refined:,} refined, {each} each"
        out.print(said + (f"; kept as they were read: {shown(kept)}" if kept else ""))
