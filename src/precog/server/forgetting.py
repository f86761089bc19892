"""What else goes when something is forgotten: stored responses whose states have read it."""

from typing import Literal

from precog.server.services import Services
from precog.server.tenant import Tenant
from precog.store.responses import ResponseFolder


def forget_using(services: Services, user: str, kind: Literal["corpus", "memory"], name: str = "") -> int:
    """Removes the user's stored responses that have read a corpus or the memory; to be called once that is gone.

    Args:
        services: of the server.
        user: whose they are.
        kind: of what was forgotten.
        name: of the corpus; a memory has none.

    Returns:
        How many were removed.
    """
    return ResponseFolder(Tenant(services.settings, user).responses).forget_using(kind, name)
