"""Who asks."""

from dataclasses import dataclass

from precog.errors import AccessError

SCOPES = ("read", "write", "admin")
"""What a key may be good for: asking; changing corpora and memories; metrics, and acting for any user."""


@dataclass(frozen=True)
class Principal:
    """Who asks, as the key says, or anybody on this machine where there are no keys.

    Attributes:
        user: whose corpora, memories and responses these are.
        scopes: subset of `SCOPES`.
        key_id: public name of the key; "" without one.
    """

    user: str
    scopes: frozenset[str]
    key_id: str = ""

    def check(self, scope: str) -> None:
        """Refuses what the key is not good for.

        Raises:
            AccessError: it lacks the scope.
        """
        if scope not in self.scopes:
            raise AccessError(
                f"this key may not do that: it lacks the scope {scope}", is_known=True, hint="ask for another key"
            )

    def acting_for(self, user: str | None) -> "Principal":
        """The same, for a user that the request names.

        Raises:
            AccessError: it is another user, and the key is not an administrator's.
        """
        if user is None or user == self.user:
            return self
        self.check("admin")
        return Principal(user, self.scopes, self.key_id)
