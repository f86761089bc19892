"""What every request may use."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from precog.encoders import Encoder
from precog.records import ModelChoice
from precog.server.expiry import Expiry
from precog.server.job_work import JobWork
from precog.server.jobs import Jobs
from precog.server.measuring import Measuring
from precog.server.metrics import Metrics
from precog.server.open_corpora import OpenCorpora
from precog.server.principal import Principal
from precog.server.settings import ServerSettings
from precog.server.tenant import Tenant, remove_leftovers
from precog.server.work import Workers
from precog.server.writers import Writers
from precog.serving import Scheduler


@dataclass
class Services:
    """Parts that live as long as the server.

    Attributes:
        settings: how it is run.
        choice: of the model, its folder or name told, so that what is made here says what made it.
        scheduler: of the model.
        encoder: of sentences.
        workers: threads for the work of requests.
        metrics: what is counted.
        writers: lines of those who write to a memory.
        measuring: this machine as it was measured last.
        stopping: set when the server shuts down: nothing new is begun.
        corpora: that stay open between requests.
        jobs: long work on corpora.
    """

    settings: ServerSettings
    choice: ModelChoice
    scheduler: Scheduler
    encoder: Encoder
    workers: Workers
    metrics: Metrics = field(default_factory=Metrics)
    writers: Writers = field(default_factory=Writers)
    measuring: Measuring = field(default_factory=Measuring)
    stopping: threading.Event = field(default_factory=threading.Event)
    corpora: OpenCorpora = field(init=False)
    jobs: Jobs = field(init=False)

    def __post_init__(self) -> None:
        self.metrics.watch(lambda: self.scheduler.counts, lambda: self.workers.num_busy)
        self.corpora = OpenCorpora(self.encoder, on_open=self.metrics.opened_corpus)
        work = JobWork(self.settings, self.model, self.encoder, self.corpora, self.metrics.ingested)
        self.jobs = Jobs(self.settings.data / "users", work, take_back=work.take_back)

    @property
    def model_name(self) -> str:
        """Name of the model, as clients give it."""
        return self.scheduler.backbone.card.name

    @property
    def encoder_name(self) -> str:
        """Name of the encoder, as clients give it: what people call it, without what is said of its numbers."""
        return self.encoder.name.partition(" (")[0]

    def is_encoder(self, name: str) -> bool:
        """Whether a name is the encoder's, short or whole."""
        return name in (self.encoder_name, self.encoder.name)

    def tenant(self, principal: Principal) -> Tenant:
        """The folders of whoever asks."""
        return self.tenant_of(principal.user)

    def tenant_of(self, user: str) -> Tenant:
        """The folders of a user, whoever asks on their behalf."""
        return Tenant(self.settings, user)

    def model(self, principal: Principal, cancelled: threading.Event) -> ModelChoice:
        """The model, open, for the work of one request in one thread; see `Scheduler.share`."""
        return replace(self.choice, loaded=self.scheduler.share(principal.user, cancelled))

    @contextmanager
    def running(self) -> Iterator["Services"]:
        """Inside, requests are answered; afterwards what has begun is finished, and everything is closed."""
        expiry = Expiry(self.settings, self.stopping)
        expiry.start()
        try:
            remove_leftovers(self.settings.data / "users")
            self.jobs.open()
            yield self
        finally:
            self.stopping.set()
            expiry.close()
            self.jobs.close()
            self.workers.close()
            self.corpora.close()
            self.scheduler.close()
