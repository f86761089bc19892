"""One picture of each kind, with the numbers that the paper prints."""

import numpy as np

from precog import figures
from precog.figures import Axis, Bar, Level, Line, Mark, ParetoPoint, Stage, Way

STATE, PER_TOKEN, WEIGHTS = 196_608, 32_768, 2.4e9
TOKENS = [2**n for n in range(18)]
PLATFORMS = {"Edge UFS 4.0": 4.2e9, "Edge UFS 5.0": 10.8e9, "Edge LPDDR5": 96e9, "CPU DDR5": 460e9, "GPU HBM3": 3350e9}


def pipeline() -> figures.Pipeline:
    stages = {"encode": 0.005, "search": 0.0005, "load": 46.8e-6, "inject": 0.0005, "question": 0.526}
    stages |= {"first_token": 0.585, "read_chunk": 26.95}
    return figures.Pipeline(
        "A chunk is read once; a question starts from its state", 512, STATE, 1536, 2200, 10, 3, stages
    )


def storage_scaling() -> figures.StorageScaling:
    ways = [
        figures.Stored("KV cache, Llama-3.2-1B", [PER_TOKEN * tokens for tokens in TOKENS]),
        figures.Stored("KV cache without grouped queries", [4 * PER_TOKEN * tokens for tokens in TOKENS]),
        figures.Stored("state, TENNs-LLM 1.2B", [STATE] * len(TOKENS)),
        figures.Stored("text", [4.3 * tokens for tokens in TOKENS]),
    ]
    marks = [Mark("equal at 6 tokens", 6, STATE), Mark("16 MB: 85×", 512, 512 * PER_TOKEN), Mark("192 KB", 512, STATE)]
    return figures.StorageScaling("Storage of one chunk", TOKENS, ways, marks, 512)


def waterfall() -> figures.Waterfall:
    ways = [
        Way(
            "In-context, transformer",
            [
                Stage("retrieve text", 0.006),
                Stage("read the chunk", 26.95),
                Stage("read the question", 0.526),
                Stage("first token", 0.053),
            ],
        ),
        Way(
            "In-context, state-space model",
            [
                Stage("retrieve text", 0.006),
                Stage("read the chunk", 26.95),
                Stage("read the question", 0.526),
                Stage("first token", 0.053),
            ],
        ),
        Way(
            "PRECOG",
            [
                Stage("encode the question", 0.005),
                Stage("search", 0.0005),
                Stage("load the state", 46.8e-6),
                Stage("inject", 0.0005),
                Stage("read the question", 0.526),
                Stage("first token", 0.053),
            ],
        ),
    ]
    return figures.Waterfall("Time to the first token, 512-token chunk, 19 tokens/s", ways)


def load_time() -> figures.LoadTime:
    artefacts = [
        figures.Artefact("KV cache, 16 MB", [512 * PER_TOKEN / speed for speed in PLATFORMS.values()]),
        figures.Artefact("state, 192 KB", [STATE / speed for speed in PLATFORMS.values()]),
    ]
    names = [f"{name} ({speed / 1e9:g} GB/s)" for name, speed in PLATFORMS.items()]
    return figures.LoadTime("Load time of a 512-token chunk, bound by bandwidth", names, artefacts)


def roofline() -> figures.Roofline:
    tokens = [2**n for n in range(7, 21)]
    platforms = [
        figures.PlatformSpeed(
            name,
            [speed / (WEIGHTS + PER_TOKEN * count) for count in tokens],
            [speed / (WEIGHTS + STATE) for _ in tokens],
        )
        for name, speed in PLATFORMS.items()
    ]
    return figures.Roofline("Generation, bound by bandwidth", tokens, platforms, WEIGHTS / PER_TOKEN)


def trade_off() -> figures.TradeOff:
    chunks = [10**n for n in range(2, 8)]
    storage = [
        Line("states, 192 KB a chunk", chunks, [STATE * count for count in chunks]),
        Line("KV caches, 16 MB a chunk", chunks, [16 * 2**20 * count for count in chunks]),
        Line("text, 2.2 KB a chunk", chunks, [2200 * count for count in chunks]),
    ]
    tokens = [2**n for n in range(5, 14)]
    latency = [
        Line("state: retrieve, load, inject", tokens, [0.006 for _ in tokens]),
        Line("text: read again at 19 tokens/s", tokens, [count / 19 for count in tokens]),
    ]
    marks = [Mark("26.95 s, 4,500×", 512, 512 / 19)]
    return figures.TradeOff(
        "What states cost, and what they save",
        storage,
        latency,
        storage_marks=[Mark("1.8 GB", 10_000, STATE * 1e4)],
        latency_marks=marks,
    )


def memory_pipeline() -> figures.MemoryPipeline:
    dial = [
        figures.Dial("K = N", "every state, lossless episodic", 512 * STATE),
        figures.Dial("K = N/8", "every 8th, tunable", 64 * STATE),
        figures.Dial("K = 1", "the last one, semantic", STATE),
    ]
    return figures.MemoryPipeline(
        "Structured memory consolidation",
        ["spatial", "emotional", "temporal", "social", "factual"],
        ["places at home", "ways to work", "travels", "objects lost"],
        dial,
        chunk_tokens=512,
        state_bytes=STATE,
        alpha=0.1,
        start_sec=0.006,
    )


def memory_map() -> figures.MemoryMap:
    generator = np.random.default_rng(0)
    panels = []
    for title in ("spatial", "social"):
        centres = generator.normal(size=(4, 2)) * 8
        points = np.concatenate([centre + generator.normal(size=(30, 2)) for centre in centres]).astype(np.float32)
        labels = tuple(None if n >= 90 else f"group {n // 30}" for n in range(120))
        panels.append(figures.MapPanel(title, points, labels, {"what emerges": list(range(95, 118))}))
    return figures.MemoryMap.of(panels, "A memory of 240 deposits")


def bars_with_intervals() -> figures.BarsWithIntervals:
    rows = [
        Bar("in context", 61.2, 58.3, 64.0, 73.6),
        Bar("inject, top 1", 61.0, 58.1, 63.9, 73.4),
        Bar("inject, top 3", 57.4, 54.5, 60.2, 71.8),
        Bar("no context", 9.8, 8.1, 11.6, 35.0),
        Bar("state of another paragraph under the gold mask", 14.2, 12.1, 16.3),
        Bar("alternate layers", None, paper=70.0),
    ]
    return figures.BarsWithIntervals("SQuAD v1.1, 1,000 questions, gold paragraph", "F1", "%", rows)


def curves() -> figures.Curves:
    ks = [1, 2, 3, 5, 10]
    paper = [Line("mean", ks, [48.0, 54.0, 55.5, 53.0, 49.0])]
    ours = [
        Line("mean", ks, [30.1, 33.0, 32.2, 29.0, 22.0], [28, 31, 30, 27, 20], [32, 35, 34, 31, 24]),
        Line("softmax", ks, [30.1, 34.0, 33.2, 31.0, 26.0]),
        Line("state soup", ks, [30.1, 31.0, 29.2, 25.0, 19.0]),
    ]
    lengths = [70, 190, 440, 870, 1700, 3200]
    nq = [
        Line("whole passage", lengths, [65, 64, 61, 55, 48, 37]),
        Line("chunked, top 1", lengths, [65, 63, 57, 49, 40, 30]),
    ]
    nq_paper = [
        Line("PRECOG", lengths, [65, 64.5, 63.5, 60, 54, 45]),
        Line("in context", lengths, [65, 64.5, 64, 63.5, 62, 60]),
    ]
    f1 = Axis("F1", "%")
    return figures.Curves(
        "Composition and chunk length",
        [
            figures.Panel("HotpotQA, distractor", Axis("k"), f1, ours, paper, [Level("no context", y=9.0)]),
            figures.Panel(
                "Natural Questions",
                Axis("passage", "tokens", "log"),
                f1,
                nq,
                nq_paper,
                marks=[Mark("horizon", 440, 61)],
            ),
        ],
    )


def pareto() -> figures.Pareto:
    quality = {"all": 73.4, "bottom 18": 73.0, "bottom 12": 72.5, "bottom 6": 68.0, "top 12": 65.0, "alternate": 70.0}
    layers = {"all": 24, "bottom 18": 18, "bottom 12": 12, "bottom 6": 6, "top 12": 12, "alternate": 12}
    loss = {"FP16": (16, 0.0), "INT8": (8, 0.3), "INT4": (4, 2.1)}
    points = [
        ParetoPoint(f"{codec}, {subset}", layers[subset] * 4096 * bits // 8, quality[subset] - less, codec, subset)
        for codec, (bits, less) in loss.items()
        for subset in quality
    ]
    return figures.Pareto(
        "Answers against bytes, SQuAD v1.1", "F1", "%", [*points, ParetoPoint("nothing", 0, 35.0, "", "")]
    )


def error_growth() -> figures.ErrorGrowth:
    tokens = [1, 2, 4, 8, 16, 32, 64, 128]
    layers = list(range(1, 13))

    def precision(name: str, step: float, first: float) -> figures.StoredPrecision:
        bounds = [step * 40] * len(tokens) if step else None
        errors = [first * 0.97**count for count in tokens]
        return figures.StoredPrecision(name, errors, bounds, [first / 3 * (1 + n / 6) for n in layers])

    precisions = [
        precision("FP64", 0.0, 0.0),
        precision("FP32", 2.0**-24, 1.4e-6),
        precision("FP16", 2.0**-11, 8e-3),
        precision("BF16", 2.0**-8, 7e-2),
    ]
    return figures.ErrorGrowth("A stored state against one that was never put away", tokens, precisions, layers)


EVERY = {
    make.__name__: make
    for make in (
        pipeline,
        storage_scaling,
        waterfall,
        load_time,
        roofline,
        trade_off,
        memory_pipeline,
        memory_map,
        bars_with_intervals,
        curves,
        pareto,
        error_growth,
    )
}
