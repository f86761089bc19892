"""The words of the report, for whoever does not live with them."""

from precog.evaluate.paper.findings import Findings, Written
from precog.evaluate.paper.report import Grid, Section

__all__ = ["words"]

_WORDS = {
    "EM, F1": "share of answers that are exactly one of those people gave; overlap of words with the best of them; in "
    "percent, as SQuAD counts",
    "interval": "95 %, by drawing the questions again with replacement; of a single question it has no width and says "
    "nothing",
    "ΔF1": "difference of F1 on the same questions",
    "state": "all that a model keeps of what it has read, of fixed size; injected: the model starts from it",
    "mask, grounded": "an answer is the span of the given paragraph that the model scores highest; the mask allows no "
    "words but those (a beam of the model's own width, no sampling)",
    "free": "the model says what it likes",
    "spans only": "without the questions that are answered yes or no, which no span can answer",
    "mean, mean@T": "the paper's average of states, weighted by a softmax over retrieval scores at temperature 1, or T",
    "mix": "every state reads the question for itself, and the probabilities are averaged",
    "concat, permute": "states joined as if their texts had been read one after the other; averaged over all orders",
    "replay": "one state injected, the other texts read again",
    "best": "the best paragraph's state alone",
    "exact": "the same as reading, up to rounding; approximate: no text leads to that state",
    "codec": "how a state is stored: fp16, int8 and int4 give the bits a number; rot: rotated first",
    "once, twice": "how often a paragraph is read before its state is kept",
    "deposit": "a piece of a conversation that a memory keeps; its semantic state is an average of such states",
    "fit none": "utterances whose routing probability is below the threshold; called others in Figure 8",
    "Δlogit, argmax": "difference of the scores of words; the most probable word",
    "TTFT": "time to the first token, all of it; injection overhead is what finding and injecting add to the question",
}


def words(findings: Findings) -> Written:
    """The section."""
    return Written(Section("Words", grids=[Grid("what they mean here", ("word", "meaning"), list(_WORDS.items()))]))
