"""How an engine is asked for one answer, where that is more or other than the client wrote (`policy.request`).

Only in profile full, only for chat, and each change is counted. What is asked for is owed back: the client gets neither
the tokens nor the stop string that it did not ask for (contract rule 7). `/generate` tells its ids unasked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from gateway.exchange.route import RouteRules
from gateway.policy import Policy, Profile
from gateway.protocols.chat_tokens import IDS, LOGPROBS, TokensAsked
from gateway.protocols.protocol import RequestFacts
from gateway.protocols.raw_ids import IdsRead
from gateway.rulebook.faults import STOP_DESYNC, KnownFault
from gateway.streams.jsonscan import DROP, Changes, Drop, edit

Stop = Literal["engine", "in_step", "gateway"]

_IN_STEP: Final = {"vllm": "include_stop_str_in_output", "sglang": "no_stop_trim"}
"""The member that leaves the stop string in the text, so that the engine holds nothing back for it."""
_TELLS_IDS: Final = ("vllm",)
"""Engines that tell a chat stream's token ids (SGLang refuses them, reference/sglang.md 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """`stop`: who matches the stop strings, and how. `tokens`: what is asked for of the tokens, None: nothing is read
    from them. `stops`: what the gateway itself has to cut off or to match, empty where the engine does. `why`: the
    known faults of the engine that `auto` answers. `choices`: how many the answer has. `usage`: each chunk is asked to
    tell the usage so far, since the engine is left before its last one.
    """

    stop: Stop = "engine"
    tokens: TokensAsked | None = None
    stops: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    choices: int = 1
    usage: bool = False


NOTHING: Final = Asking()


def asking_of(facts: RequestFacts, rules: RouteRules, policy: Policy, *, protocol: str) -> Asking:
    """What is asked for. `protocol`: the name of the request's."""
    if policy.profile is not Profile.FULL or protocol != "chat":
        return NOTHING
    met = _faults_met(facts, rules, endpoint=protocol)
    lost = [fault for fault in met if fault.remedy == "tokens"]
    late = [fault for fault in met if fault.lint == STOP_DESYNC]
    tokens = _tokens(facts, rules, policy, wanted=rules.source == "tokens" or (rules.source == "auto" and bool(lost)))
    stop = _stop(facts, rules, policy, auto=late[0].remedy if late else "engine", by_tokens=tokens is not None)
    answered = [
        *(lost if tokens and rules.source == "auto" else ()),
        *(late if policy.stop == "auto" and stop != "engine" else ()),
    ]
    if not tokens and stop == "engine":
        return NOTHING
    return Asking(
        stop=stop,
        tokens=tokens,
        stops=facts.stops,
        why=tuple(fault.ident for fault in answered),
        choices=facts.samples,
        usage=stop == "gateway" and facts.stream and facts.wants_usage and not facts.wants_each_usage,
    )


def answers_of(rules: RouteRules) -> dict[str, str]:
    """The known faults of the route's engine that `auto` answers by asking it otherwise, and how: tokens, or a `Stop`.

    What is asked for a single request follows from what it meets (`asking_of`).
    """
    policy = rules.policy
    if policy.profile is not Profile.FULL:
        return {}
    by_tokens = rules.source == "auto" and rules.dialect is not None and policy.tokens != "never"
    by_stop = ("gateway", *(("in_step",) if rules.engine in _IN_STEP else ()))
    return {
        fault.ident: fault.remedy
        for fault in rules.faults_known()
        if (by_tokens and fault.remedy == "tokens")
        or (policy.stop == "auto" and fault.lint == STOP_DESYNC and fault.remedy in by_stop)
    }


def asked(body: bytes, asking: Asking, rules: RouteRules) -> tuple[bytes, Counter[str]]:
    """The request that asks for it, and what was changed; the same object when nothing was.

    Raises ValueError on a body that cannot be edited.
    """
    changes: dict[str | int, bytes | Drop | Changes] = {}
    done: Counter[str] = Counter()
    if asking.tokens:
        changes |= asking.tokens.changes()
        done["tokens_asked"] += bool(asking.tokens.ours)
    if asking.stop == "in_step":
        changes[_IN_STEP[rules.engine]] = b"true"
        done["stop_in_step"] += 1
    if asking.stop == "gateway":
        changes["stop"] = DROP
        changes |= {"stream_options": {"continuous_usage_stats": b"true"}} if asking.usage else {}
        done["stop_removed"] += 1
    return (edit(body, changes) if changes else body), +done


def ids_read(facts: RequestFacts, rules: RouteRules, policy: Policy, *, protocol: str) -> IdsRead | None:
    """How raw text is read from the ids that come with it unasked (`/generate`); None: from the text."""
    wanted = protocol == "generate" and policy.profile is Profile.FULL and rules.source == "tokens"
    if not wanted or policy.tokens == "never" or not (rules.dialect and rules.spelling) or facts.shows_special is None:
        return None
    return IdsRead(
        markers=rules.markers,
        spelling=rules.spelling,
        unshown=frozenset() if facts.shows_special else rules.special,
        keeps_end=facts.keeps_stop,
    )


def _faults_met(facts: RequestFacts, rules: RouteRules, *, endpoint: str) -> tuple[KnownFault, ...]:
    """The known faults that the request meets. For a stop string of one character an engine keeps nothing back."""
    late = facts.stops and not facts.keeps_stop and any(len(text) > 1 for text in facts.stops)
    present = (("stop", late), ("tools", facts.tools), ("thinking_off", facts.thinking == "off"))
    return rules.faults_met(
        endpoint=endpoint,
        stream=facts.stream,
        asked=facts.thinking == "on" or (facts.thinking == "unknown" and rules.thinking_default == "on"),
        conditions=frozenset(name for name, there in present if there),
    )


def _tokens(facts: RequestFacts, rules: RouteRules, policy: Policy, *, wanted: bool) -> TokensAsked | None:
    """What is asked for of the tokens. Nothing where the client wants the text as the model wrote it.

    Nothing either where the request has tools and the route no format of theirs: the engine's own calls would be text.
    """
    dialect = rules.dialect
    if not wanted or policy.tokens == "never" or dialect is None or facts.unsplit or facts.names_tokens:
        return None
    if facts.tools and not (dialect.reads_calls and dialect.regions):
        return None
    ids = rules.engine in _TELLS_IDS and policy.tokens != "logprobs"
    # Without a tokenizer an engine spells the ids of a whole answer (`/detokenize`): asked for once it is there.
    alone = rules.spelling or (policy.tokens == "ids" and not facts.stream and rules.markers.ids)
    means = {IDS} if ids and alone else {IDS, LOGPROBS} if ids else {LOGPROBS}
    return TokensAsked(
        ours=frozenset(means) - facts.asks_tokens,
        theirs=facts.asks_tokens,
        markers=rules.markers,
        spelling=rules.spelling,
        ends_in_token=rules.engine == "vllm",
    )


def _stop(facts: RequestFacts, rules: RouteRules, policy: Policy, *, auto: str, by_tokens: bool) -> Stop:
    """Who matches. `auto`: what helps against a fault of the engine that this request meets.

    A stop string that stays in the text is in step with the tokens; the tokens tell where one stands themselves.
    """
    wanted = auto if policy.stop == "auto" else policy.stop
    if not facts.stops or facts.keeps_stop or by_tokens:
        return "engine"
    if wanted == "gateway":
        return "gateway"
    return "in_step" if wanted == "in_step" and rules.engine in _IN_STEP else "engine"
