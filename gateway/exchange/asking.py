"""How an engine is asked for one answer, where that is more or other than the client wrote (`policy.request`).

Only in profile full, only for chat, and each change is counted. What is asked for is owed back: the client gets neither
the tokens nor the stop string that it did not ask for (contract rule 7).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from gateway.exchange.route import RouteRules
from gateway.policy import Policy, Profile
from gateway.protocols.chat_tokens import IDS, LOGPROBS, TokensAsked
from gateway.protocols.protocol import RequestFacts
from gateway.streams.jsonscan import DROP, Changes, Drop, edit

Stop = Literal["engine", "in_step", "gateway"]

_IN_STEP: Final = {"vllm": "include_stop_str_in_output", "sglang": "no_stop_trim"}
"""The member that leaves the stop string in the text, so that the engine holds nothing back for it."""
_TELLS_IDS: Final = ("vllm",)
"""Engines that tell a chat stream's token ids (SGLang refuses them, reference/sglang.md 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """`stop`: who matches the stop strings, and how. `tokens`: what is asked for of the tokens, None: nothing is read
    from them. `stops`: what the gateway itself has to cut off or to match, empty where the engine does.
    """

    stop: Stop = "engine"
    tokens: TokensAsked | None = None
    stops: tuple[str, ...] = ()


NOTHING: Final = Asking()


def asking_of(facts: RequestFacts, rules: RouteRules, policy: Policy, *, protocol: str) -> Asking:
    """What is asked for. `protocol`: the name of the request's."""
    if policy.profile is not Profile.FULL or protocol != "chat":
        return NOTHING
    tokens = _tokens(facts, rules, policy)
    stop = _stop(facts, rules, policy, by_tokens=tokens is not None)
    return Asking(stop=stop, tokens=tokens, stops=facts.stops if tokens or stop != "engine" else ())


def asked(body: bytes, asking: Asking, rules: RouteRules) -> tuple[bytes, Counter[str]]:
    """The request that asks for it, and what was changed; the same object when nothing was.

    Raises ValueError on a body that cannot be edited.
    """
    changes: dict[str | int, bytes | Drop | Changes] = {}
    done: Counter[str] = Counter()
    if asking.tokens and asking.tokens.ours:
        changes |= asking.tokens.changes()
        done["tokens_asked"] += 1
    if asking.stop == "in_step":
        changes[_IN_STEP[rules.engine]] = b"true"
        done["stop_in_step"] += 1
    if asking.stop == "gateway":
        changes["stop"] = DROP
        done["stop_removed"] += 1
    return (edit(body, changes) if changes else body), done


def _tokens(facts: RequestFacts, rules: RouteRules, policy: Policy) -> TokensAsked | None:
    """What is asked for of the tokens. Nothing where the client wants the text as the model wrote it."""
    wanted = rules.source == "tokens"
    if not wanted or policy.tokens == "never" or rules.dialect is None or facts.unsplit or facts.names_tokens:
        return None
    ids = rules.engine in _TELLS_IDS and policy.tokens != "logprobs"
    means = {IDS} if ids and rules.spelling else {IDS, LOGPROBS} if ids else {LOGPROBS}
    return TokensAsked(
        ours=frozenset(means) - facts.asks_tokens,
        theirs=facts.asks_tokens,
        markers=rules.markers,
        spelling=rules.spelling,
        ends_in_token=rules.engine == "vllm",
    )


def _stop(facts: RequestFacts, rules: RouteRules, policy: Policy, *, by_tokens: bool) -> Stop:
    """Who matches. The tokens tell where the engine's own stop string stands, so that nothing has to be changed."""
    if not facts.stops:
        return "engine"
    if policy.stop == "gateway":
        return "gateway"
    in_step = policy.stop == "in_step" and rules.engine in _IN_STEP and not by_tokens
    return "in_step" if in_step and not facts.keeps_stop else "engine"
