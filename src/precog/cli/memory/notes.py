"""What is told on stderr of damage to a memory, so that stdout holds results alone."""

from precog.cli.output import err, shown
from precog.memory.damage import Damage


def tell(damage: Damage) -> None:
    """Prints a line for each kind of damage."""
    tell_lines(*damage.lines)


def tell_lines(*lines: str | None) -> None:
    """Prints lines, those that are None left out."""
    for line in lines:
        if line is not None:
            err.print(f"[yellow]note:[/] {shown(line)}")
