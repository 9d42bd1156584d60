"""Which stages the answer of a setting goes through, and which of them may hold text (contract rules 4, 8, 9)."""

from __future__ import annotations

from collections import Counter

from gateway.findings import Finding
from gateway.integrity.dedup import Dedup
from gateway.integrity.end_string import EndString
from gateway.integrity.hold import Promotion, UnknownStart, UnmarkedThought
from gateway.integrity.resync import Resync
from gateway.integrity.setting import Setting
from gateway.policy import Mode, Policy, Profile
from gateway.streams.regions import RegionReader


def reader_of(setting: Setting, *, starts_open: bool, split: bool) -> RegionReader | None:
    """A reader of one field; None where nothing is read."""
    if setting.grammar is None:
        return None
    return RegionReader(
        setting.grammar,
        starts_open=starts_open,
        split=split,
        takes=setting.takes,
        limits=setting.limits,
    )


def unknown_start_of(setting: Setting) -> UnknownStart | UnmarkedThought | None:
    """The window before the thought, where the route promises one and the engine splits fields, and sends both."""
    promised = setting.starts_open and not setting.thinking_off and not setting.unsent
    if setting.raw or not _may_move(setting):
        return None
    if setting.unmarked and setting.tooling and not promised:
        return UnmarkedThought(setting.unmarked, cap=setting.limits.unknown_start)
    if not promised:
        return None
    probe = reader_of(setting, starts_open=True, split=False)
    return UnknownStart(probe, cap=setting.limits.unknown_start) if probe else None


def resync_of(setting: Setting) -> Resync | None:
    """The window behind the reasoning of an engine that may have kept text back for a stop string."""
    window = setting.stop_window
    return None if window is None or setting.raw or not _may_move(setting) else Resync(window)


def promotion_of(setting: Setting) -> Promotion | None:
    """Reasoning that may be the answer; it holds text only where it would be promoted."""
    mode = setting.policy.mode(Finding.ANSWER_IN_REASONING)
    wanted = setting.policy.promote_reasoning == "thinking_off" and setting.promotable and not setting.hidden
    if not (wanted and setting.thinking_off) or mode is Mode.OFF:
        return None
    return Promotion(cap=setting.limits.promote, hold=mode is Mode.ENFORCE)


def end_string_of(setting: Setting) -> EndString | None:
    """The search for the string that an engine forces at the end of the thinking budget."""
    texts = setting.end_strings
    return EndString(texts, run_cap=setting.limits.marker_run) if texts else None


def dedup_of(setting: Setting, counts: Counter[str]) -> Dedup:
    """The comparison of the answer with the reasoning; it holds text only where a repeat would be suppressed."""
    rules = setting.policy.dedup
    return Dedup(
        hold=suppressible(setting) and setting.policy.enforces(Finding.DUPLICATE_SUPPRESSED),
        trim=rules.match == "trim",
        min_length=rules.min_length,
        cap=setting.limits.dedup,
        counts=counts,
    )


def moves_thought(policy: Policy) -> bool:
    """True where a thought is moved out of the content, and its markers with it."""
    return policy.enforces(Finding.REASONING_LEAK) and policy.enforces(Finding.BOUNDARY_TOKEN)


def suppressible(setting: Setting) -> bool:
    """True where a repeat of the reasoning is suppressed, or would be."""
    counted = setting.policy.mode(Finding.DUPLICATE_SUPPRESSED) is not Mode.OFF
    return counted and setting.policy.dedup.enabled and setting.wanted and not setting.hidden


def _may_move(setting: Setting) -> bool:
    """True where content may be held to find a thought in it."""
    # In observe the engine's own bytes go out, so that nothing is late; not so where something has to be hidden.
    counts = setting.policy.profile is Profile.OBSERVE and not setting.hidden
    return counts or moves_thought(setting.policy)
