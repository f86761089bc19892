"""Pictures from plain arrays: numbers in, one PNG or SVG file out; the only room that knows matplotlib.

Each picture of numbers is a frozen dataclass. `draw` writes it together with its numbers, and `redraw` draws it from
these alone.
"""

from precog.figures.axis import Axis
from precog.figures.bars import Bar, BarsWithIntervals
from precog.figures.canvas import check_target
from precog.figures.curves import Curves
from precog.figures.drawn import KINDS, Picture, draw, load, redraw
from precog.figures.error_growth import ErrorGrowth, StoredPrecision
from precog.figures.horizon import horizon
from precog.figures.lines import Level, Line, Mark
from precog.figures.load_time import Artefact, LoadTime
from precog.figures.loss import loss_curve
from precog.figures.memory_map import MapPanel, MappedDomain, MemoryMap, memory_map
from precog.figures.memory_pipeline import Dial, MemoryPipeline
from precog.figures.panel import Panel
from precog.figures.pareto import Pareto, ParetoPoint
from precog.figures.pipeline import Pipeline
from precog.figures.roofline import PlatformSpeed, Roofline
from precog.figures.storage_scaling import StorageScaling, Stored
from precog.figures.trade_off import TradeOff
from precog.figures.waterfall import Stage, Waterfall, Way

__all__ = [
    "KINDS",
    "Artefact",
    "Axis",
    "Bar",
    "BarsWithIntervals",
    "Curves",
    "Dial",
    "ErrorGrowth",
    "Level",
    "Line",
    "LoadTime",
    "MapPanel",
    "MappedDomain",
    "Mark",
    "MemoryMap",
    "MemoryPipeline",
    "Panel",
    "Pareto",
    "ParetoPoint",
    "Picture",
    "Pipeline",
    "PlatformSpeed",
    "Roofline",
    "Stage",
    "StorageScaling",
    "Stored",
    "StoredPrecision",
    "TradeOff",
    "Waterfall",
    "Way",
    "check_target",
    "draw",
    "horizon",
    "load",
    "loss_curve",
    "memory_map",
    "redraw",
]
