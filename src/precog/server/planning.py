"""What a context would take: of a question to a corpus, of a usual chunk of it, or of any text of some length."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from precog.corpus.ask import AskOptions
from precog.errors import CorpusError
from precog.index import Retrieval
from precog.plan import Need, Plan, ReadSpeed, Speed, choose
from precog.plan.disk import measure_disk
from precog.plan.probe import disk_speed, model_speed
from precog.records import RecordForm
from precog.server.asking import asking
from precog.server.principal import Principal
from precog.server.services import Services
from precog.server.tenant import make_private
from precog.server.work import Job

_CODEC = "fp16"
_WAYS = ("inject", "in-context")
_MEASURED_BYTES = 16 << 20


def plan_of_question(
    services: Services,
    principal: Principal,
    job: Job,
    corpus: str,
    question: str,
    options: AskOptions,
    retrieval: Retrieval = "hybrid",
) -> dict[str, object]:
    """What ``mode: auto`` would do with a question.

    Raises:
        MissingError, CorpusError: see `asking`.
    """
    with asking(services, principal, corpus, services.model(principal, job.cancelled), retrieval) as asker:
        plan, needs = asker.plan(question, options)
        speed, disk = asker.planner.speeds()
    return _told(plan or Plan("none", "nothing is found for this question", {}), needs, speed, disk)


def plan_of_corpus(services: Services, principal: Principal, job: Job, corpus: str) -> dict[str, object]:
    """What a chunk of usual length of a corpus takes.

    Raises:
        CorpusError: there is nothing in it.
    """
    with asking(services, principal, corpus, services.model(principal, job.cancelled)) as asker:
        assert asker.searcher is not None
        store = asker.searcher.store
        size = store.size()
        if not size.num_chunks:
            raise CorpusError("there is nothing in this corpus yet", given=corpus)
        needs = [Need(round(size.num_tokens / size.num_chunks), store.layout.state_bytes, store.layout.record_bytes)]
        speed, disk = asker.planner.speeds()
    return _told(choose(needs, speed, disk, _WAYS), needs, speed, disk)


def plan_of_tokens(services: Services, principal: Principal, job: Job, num_tokens: int) -> dict[str, object]:
    """What a text of some length takes, its state stored in 16 bits a real or not."""
    backbone = services.model(principal, job.cancelled).load("once")
    form = RecordForm(_CODEC, "all", "once", backbone.encoding_dtype, num_tokens)
    layout = form.layout(backbone.spec, backbone.tokenizer.vocab_size)
    needs = [Need(num_tokens, layout.state_bytes, layout.record_bytes)]
    data, home = services.settings.data, services.settings.home
    speed = model_speed(backbone, _CODEC, home)
    disk = disk_speed(_there(data), lambda: [_one_read(data, layout.record_bytes)], home)
    return _told(choose(needs, speed, disk, _WAYS), needs, speed, disk)


def _there(folder: Path) -> Path:
    make_private(folder)
    return folder


def _one_read(folder: Path, num_bytes: int) -> tuple[int, float]:
    return num_bytes, measure_disk(folder, _MEASURED_BYTES).speed.read_sec(num_bytes)


def _told(plan: Plan, needs: Sequence[Need], speed: Speed, disk: ReadSpeed) -> dict[str, object]:
    return {
        **plan.to_json(),
        "texts": [asdict(need) for need in needs],
        "model_speed": speed.to_json(),
        "disk_speed": disk.to_json(),
    }
