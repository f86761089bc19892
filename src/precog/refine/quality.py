"""Texts ▸ states of the quality that was asked for: the one way that corpora and evaluations share."""

from collections.abc import Sequence
from dataclasses import asdict

from precog.backbones.protocol import Backbone
from precog.refine import study as studying
from precog.refine.choice import DEFAULT_STEPS, STUDY, StudyLimits
from precog.refine.focus import check_can_focus
from precog.refine.study import Studied, StudySettings
from precog.refine.tally import StudyTally
from precog.state import State


def study_settings(backbone: Backbone, quality: str, limits: StudyLimits) -> StudySettings | None:
    """How states are trained, within limits as they are given; None where there are no gradient steps.

    Raises:
        UsageError: the model cannot be studied with: its states have no mean, or steps are wanted and there are no
            gradients.
    """
    if quality != STUDY:
        return None
    check_can_focus(backbone)
    steps = DEFAULT_STEPS if limits.steps is None else limits.steps
    if not steps:
        return None
    studying.check_can_study(backbone)
    return StudySettings(steps, limits.seconds)


def states_of(
    backbone: Backbone,
    texts: Sequence[str],
    titles: Sequence[str],
    token_ids: Sequence[Sequence[int]],
    settings: StudySettings | None = None,
) -> list[tuple[State, Studied | None]]:
    """The state of each text, and what studying made of it.

    Args:
        backbone: the model, in the encode mode that is wanted.
        texts: to read; nothing else goes into their states.
        titles: of what they stand in; "" for none.
        token_ids: of the texts.
        settings: how states are studied; None where they are only read.

    Raises:
        InputError: a text is empty.
    """
    states = backbone.encode_chunks(token_ids)
    if settings is None:
        return [(state, None) for state in states]
    return [(one.state, one) for one in studying.study(backbone, texts, titles, token_ids, states, settings)]


class QualityStates:
    """States of one quality, made by one model, and what became of those that were studied.

    Args:
        backbone: the model, in the encode mode that is wanted.
        settings: how states are studied; None where they are only read.

    Attributes:
        settings: as given.
        tally: of all that were made.
    """

    def __init__(self, backbone: Backbone, settings: StudySettings | None = None) -> None:
        self._backbone = backbone
        self.settings = settings
        self.tally = StudyTally()

    def make(
        self, texts: Sequence[str], token_ids: Sequence[Sequence[int]], titles: Sequence[str] | None = None
    ) -> list[tuple[State, bool]]:
        """The state of each text, and whether it is refined; see `states_of`, titles of None being empty.

        Raises:
            InputError: a text is empty.
        """
        titles = [""] * len(texts) if titles is None else titles
        made = states_of(self._backbone, texts, titles, token_ids, self.settings)
        for _, one in made:
            if one is not None:
                self.tally.add(one.refined, one.reason, one.steps, one.seconds)
        return [(state, one is not None and one.refined) for state, one in made]

    def about(self) -> dict[str, object]:
        """How states are studied, for a report; nothing where they are only read, as the encode mode says."""
        return {} if self.settings is None else {"study": asdict(self.settings)}
