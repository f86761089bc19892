"""Parameters of the paper's model and the arithmetic of its training (Table 1, appendix E, ERRATA 20)."""

from dataclasses import dataclass

from precog.plan.paper import PaperModel, PaperTraining


def parameters(model: PaperModel) -> int:
    """Parameters of the ``paper`` preset, biases, norms and both embeddings included; 1,190,502,400.

    The diagonal mixer with a static readout: see `precog.backbones.tenns.block`.
    """
    d, n, e, groups = model.width, model.inner, model.bottleneck, model.repeat
    modes = groups * model.coefficients // 2  # a complex mode is two of the coefficients (ERRATA 2)
    norms = d + n
    gates = n * e + groups * (e + 1) + (e + 1) * n  # into the bottleneck; to Δ; to β
    block = norms + d * 2 * n + n * (model.kernel + 1) + gates + modes + n + n * n + n * d
    return model.layers * block + 2 * model.vocabulary * d + d


def training_flops(parameters: int | float, tokens: int | float) -> float:
    """6 N D: forward 2, backward 4 (Kaplan et al. 2020)."""
    return 6 * parameters * tokens


@dataclass(frozen=True)
class TrainingReading:
    """One reading of "360 GPU-hours of wall-clock compute" on 8 cards.

    Attributes:
        name: what is counted.
        gpu_hours: of all cards together.
        most_flops: at 100 % of the cards' peak.
        utilisation: share of the peak that the training needs (MFU); above 1 it cannot be.
    """

    name: str
    gpu_hours: float
    most_flops: float
    utilisation: float

    @property
    def is_possible(self) -> bool:
        """Whether a card could do it."""
        return self.utilisation <= 1


def training_readings(model: PaperModel, training: PaperTraining) -> tuple[TrainingReading, TrainingReading]:
    """Both readings: 360 hours of one card, and 360 hours of all of them (ERRATA 20)."""
    flops = training_flops(model.nominal_parameters, training.tokens)

    def reading(name: str, gpu_hours: float) -> TrainingReading:
        most = training.peak_flops_per_sec * gpu_hours * 3600
        return TrainingReading(name, gpu_hours, most, flops / most)

    return reading("GPU-hours", training.hours), reading("hours of all cards", training.hours * training.gpus)


def least_gpu_hours(model: PaperModel, training: PaperTraining) -> float:
    """GPU-hours of the training at 100 % of the peak."""
    flops = training_flops(model.nominal_parameters, training.tokens)
    return flops / training.peak_flops_per_sec / 3600
