import math
import subprocess
import sys

import pytest

from precog.errors import UsageError
from precog.refine.choice import CPU_SECONDS, DEFAULT_STEPS, ENCODE_MODES, QUALITIES, StudyLimits, encode_mode_for


@pytest.mark.parametrize(
    ("quality", "encode_mode", "read"),
    [
        (None, None, None),
        (None, "twice", "twice"),
        ("fast", None, "once"),
        ("fast", "once", "once"),
        ("twice", None, "twice"),
        ("twice", "twice-reversed", "twice-reversed"),
        ("study", None, "once"),
        ("study", "twice", "twice"),
    ],
)
def test_how_chunks_are_read(quality: str | None, encode_mode: str | None, read: str | None) -> None:
    assert encode_mode_for(quality, encode_mode) == read


@pytest.mark.parametrize(("quality", "encode_mode"), [("fast", "twice"), ("fast", "twice-reversed"), ("twice", "once")])
def test_contradictions_name_what_fits(quality: str, encode_mode: str) -> None:
    with pytest.raises(UsageError, match=f"--quality {quality} and --encode {encode_mode} contradict") as error:
        encode_mode_for(quality, encode_mode)
    assert encode_mode_for(quality, (error.value.expected or "").removeprefix("--encode ")) is not None


def test_what_does_not_exist_is_refused_with_what_does() -> None:
    with pytest.raises(UsageError) as quality:
        encode_mode_for("best", None)
    with pytest.raises(UsageError) as encode:
        encode_mode_for(None, "thrice")
    assert (quality.value.expected, encode.value.expected) == (", ".join(QUALITIES), ", ".join(ENCODE_MODES))


@pytest.mark.parametrize("wrong", [{"study_steps": -1}, {"study_seconds": 0.0}, {"study_seconds": -2.0}])
@pytest.mark.parametrize("also", [{}, {"study_seconds": math.nan}, {"study_seconds": math.inf}])
def test_limits_out_of_range(wrong: dict[str, object], also: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="out of range"):
        StudyLimits.of({**wrong, **also}, "study")


def test_limits_are_for_what_is_studied_and_usual_where_nothing_is_said() -> None:
    with pytest.raises(UsageError, match="--study-seconds needs --quality study"):
        StudyLimits.of({"study_seconds": 2.0}, "twice")
    for steps in (None, 0):
        with pytest.raises(UsageError, match="--study-seconds needs --study-steps"):
            StudyLimits.of({"study_seconds": 2.0, "study_steps": steps}, "study")
    with pytest.raises(UsageError, match="--study-seconds needs --study-steps"):
        StudyLimits.of({"study_seconds": 2.0, "study_steps": 0}, "study", own_steps=9)
    assert StudyLimits.of({"study_seconds": 2.0}, "study", own_steps=9) == StudyLimits(None, 2.0)
    given = StudyLimits.of({"study_steps": 9, "study_seconds": 2}, "study")
    assert given.on("cpu") == given.on("cuda") == StudyLimits(9, 2.0)
    assert StudyLimits().on("cpu") == StudyLimits(0).on("cpu") == StudyLimits(DEFAULT_STEPS, None) == StudyLimits(0)
    assert StudyLimits(9).on("cpu") == StudyLimits(9, CPU_SECONDS)
    assert StudyLimits(9).on("cuda") == StudyLimits(9, None)


def test_it_needs_no_torch() -> None:
    program = "import sys, precog.refine.choice, precog.refine.tally; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
