"""Whose memory a command means."""

from typing import Annotated

import typer

User = Annotated[str, typer.Option("--user", metavar="U", help="Whose memory.")]
