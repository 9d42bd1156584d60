"""What a request and a route say about tool calls, as the reader and the tool stage take it (contract rule 5)."""

from __future__ import annotations

from typing import Final

from gateway.integrity.echo import Echo
from gateway.integrity.setting import Tooling
from gateway.policy import Mode, Policy, Profile
from gateway.protocols.protocol import Tools
from gateway.rulebook.dialect import Dialect
from gateway.streams.grammar import Take, Takes

_TAKE: Final = {Mode.OFF: Take.NO, Mode.OBSERVE: Take.WATCH, Mode.ENFORCE: Take.HOLD}


def tooling_of(tools: Tools | None, *, dialect: Dialect | None, body: bytes) -> Tooling | None:
    """The tools of the request, and how their calls are told from an echo of its text."""
    if tools is None or dialect is None:
        return None
    return Tooling(
        schemas=tools.schemas,
        choice=tools.choice,
        named=tools.named,
        parallel=tools.parallel,
        ident=dialect.ident,
        calls_before=tools.calls_before,
        said=Echo(body).said,
    )


def takes_of(tools: Tools | None, *, dialect: Dialect | None, policy: Policy, raw: bool, stream: bool) -> Takes:
    """What the reader does with calls in text.

    Without tools, and with `tool_choice: none`, markup is taken out of the answer and no call is made of it; without
    tools only markup that cannot be the client's own. Raw text is the dialect's own structure, markerless or not.
    """
    if dialect is None or not dialect.reads_calls:
        return Takes()
    away = Take.WATCH if policy.profile is Profile.OBSERVE else Take.HOLD
    if tools is None:
        return Takes(control=away)
    if tools.choice == "none":
        return Takes(content=away, control=away)
    content = _TAKE[policy.rescue("content")]
    markerless = content if raw else _TAKE[policy.rescue("markerless")]
    return Takes(
        content=content,
        control=content,
        thought=_TAKE[policy.rescue("reasoning")],
        markerless=markerless,
        early=raw and stream and policy.tool_rescue.stream == "incremental",
    )
