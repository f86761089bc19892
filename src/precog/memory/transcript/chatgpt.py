"""Conversations of a ChatGPT export: a tree of messages, of which the branch that was last looked at is read."""

import datetime
from collections.abc import Mapping

from precog.errors import InputError
from precog.memory.moment import parse_time
from precog.memory.transcript.json_values import name_in, text_in
from precog.memory.transcript.transcript import Collector

_PEOPLE = ("user", "assistant")


def is_chatgpt(value: Mapping[str, object]) -> bool:
    """Whether a JSON object is one conversation of an export."""
    return isinstance(value.get("mapping"), dict)


def read_chatgpt(value: Mapping[str, object], collector: Collector) -> None:
    """Takes the turns of user and assistant from the first to the current one; what tools and system say is no turn.

    Raises:
        InputError: the tree is damaged, or a time of it cannot be read.
    """
    nodes = value.get("mapping")
    assert isinstance(nodes, dict)
    conversation = name_in(value.get("title")) or name_in(value.get("conversation_id")) or name_in(value.get("id"))
    conversation = collector.name_apart(conversation)
    for node in _branch(nodes, value.get("current_node")):
        message = node.get("message")
        if not isinstance(message, dict):
            continue
        speaker = name_in(message.get("author"))
        content = message.get("content")
        if speaker not in _PEOPLE or not isinstance(content, dict):
            continue
        text = text_in(content.get("parts")) or text_in(content.get("text")) or ""
        time = _time(message.get("create_time"))
        collector.add(text, time, speaker, reference=name_in(message.get("id")), conversation=conversation)


def _branch(nodes: Mapping[str, object], current: object) -> list[dict[str, object]]:
    """The nodes from the root to the current one, or to the last if none is named."""
    if current is None:
        current = list(nodes)[-1] if nodes else None
    path: dict[str, dict[str, object]] = {}
    while current is not None:
        node = nodes.get(current) if isinstance(current, str) and current not in path else None
        if not isinstance(current, str) or not isinstance(node, dict):
            raise InputError("the tree of messages is damaged", given=repr(current)[:80], expected="the id of a node")
        path[current] = node
        current = node.get("parent")
    return list(path.values())[::-1]


def _time(value: object) -> datetime.datetime | None:
    if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
        return parse_time(value, zone=datetime.UTC)
    return None
