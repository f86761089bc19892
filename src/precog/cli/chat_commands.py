"""What a line of ``precog chat`` that begins with a slash does: it is a command, and never deposited."""

from precog.cli.memory.show import line_of
from precog.cli.output import counted, out, print_json, shown
from precog.errors import UsageError
from precog.memory.contents import row_of
from precog.server.outside import forget_responses_of_memory
from precog.server.settings import resolve_server
from precog.session import Session

LISTED = 5
HELP = {
    "/help": "says what the commands are",
    "/list [N]": f"shows the N deposits that were made last ({LISTED} unless you say)",
    "/forget [N …]": "forgets the deposits of these numbers, or what was remembered last here; "
    "`precog memory forget --proof` proves it, too",
    "/supersede OLD NEW": "lets the deposit NEW hold instead of OLD, which stays as history",
    "/quit": "ends, as Ctrl-D does",
    "//…": "says a line that begins with a slash",
}
_MOST_DIGITS = 18


def said_of(line: str) -> str | None:
    """What a line says to the memory; None where it is a command."""
    if not line.startswith("/"):
        return line
    return line[1:] if line.startswith("//") else None


def run_command(session: Session, line: str, *, as_json: bool) -> bool:
    """Do what a command says.

    Returns:
        Whether the conversation ends.

    Raises:
        UsageError: there is no such command, or it takes no such words.
        InputError: there is no such deposit.
    """
    name, *words = line.split()
    if name not in {usage.split()[0] for usage in HELP} - {"//…"}:
        expected = ", ".join(list(HELP)[:-1])
        raise UsageError("there is no such command in a chat", given=name, expected=expected)
    if words and name in ("/help", "/quit"):
        raise UsageError(f"{name} stands alone", given=line)
    numbers = [_number(word, name) for word in words]
    if name == "/help":
        _help(as_json)
    elif name == "/list":
        if len(numbers) > 1:
            raise UsageError("/list takes one number", given=line, expected="/list [N]")
        _list(session, numbers[0] if numbers else LISTED, as_json)
    elif name == "/forget":
        _forget(session, numbers, as_json)
    elif name == "/supersede":
        if len(numbers) != 2:
            raise UsageError("/supersede takes two numbers", given=line, expected="/supersede OLD NEW")
        _supersede(session, numbers[0], numbers[1], as_json)
    return name == "/quit"


def _number(word: str, name: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) <= _MOST_DIGITS and int(word)):
        raise UsageError(f"{name} takes numbers", given=word, expected="1 or more")
    return int(word)


def _help(as_json: bool) -> None:
    if as_json:
        print_json({"command": "/help", "commands": HELP})
        return
    for usage, does in HELP.items():
        out.print(f"[bold]{shown(usage)}[/]  {shown(does)}")


def _list(session: Session, count: int, as_json: bool) -> None:
    deposits = session.newest(count)
    if as_json:
        print_json({"command": "/list", "deposits": [row_of(deposit) for deposit in deposits]})
        return
    for deposit in deposits:
        out.print(line_of(deposit))
    if not deposits:
        out.print("nothing is remembered yet")


def _forget(session: Session, ids: list[int], as_json: bool) -> None:
    server = resolve_server()
    report = session.forget(ids)
    responses = forget_responses_of_memory(server, session.memory.folder)
    if as_json:
        print_json(
            {
                "command": "/forget",
                "forgotten": list(report.ids),
                "restored": list(report.restored),
                "responses": responses,
            }
        )
        return
    numbers = ", ".join(map(str, report.ids))
    out.print(f"[bold]forgotten[/] {counted(len(report.ids), 'deposit')}: {numbers}")
    if report.restored:
        out.print(f"holding again, as nothing newer is left: {', '.join(map(str, report.restored))}")
    if responses:
        out.print(f"removed {counted(responses, 'stored response')} of a server, which had read this memory")


def _supersede(session: Session, old: int, new: int, as_json: bool) -> None:
    session.supersede(old, new)
    if as_json:
        print_json({"command": "/supersede", "superseded": old, "by": new})
        return
    out.print(f"{old} is history; {new} holds instead")
