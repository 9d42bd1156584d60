"""Batches of conversations as vLLM takes them: chat completions whose `messages` is a list of conversations.

The answer is one of chat: the choice with index n answers conversation n. vLLM refuses `stream`, tools and `n` over 1
there, and then its error is the answer. Knows how such a request is nested.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from gateway.protocols.chat import Chat
from gateway.protocols.chat_history import shape_histories
from gateway.protocols.chat_request import chat_facts
from gateway.protocols.protocol import HistoryRule, RequestFacts


class ChatBatch(Chat):
    """`POST /v1/chat/completions/batch`."""

    def facts(self, request: dict[str, Any]) -> RequestFacts:
        """What a request says: whatever it says, it says of every conversation, or in one of them."""
        talks = request.get("messages")
        listed = [talk for talk in talks if isinstance(talk, list)] if isinstance(talks, list) else []
        return chat_facts({**request, "messages": [message for talk in listed for message in talk]})

    def shape_history(self, body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
        """The request with the assistant turns of each conversation shaped, and what was done."""
        return shape_histories(body, rule)
