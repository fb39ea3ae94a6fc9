"""The other process of `test_turns_laws.py`: it takes turns in threads of one database, as it is told line by line.

Each line that comes in is an order, each that goes out says what became of it. What the model says, and hence what the
log must hold, follows from the words of the user alone: `plan` reads it.
"""

import json
import sys
from typing import Any

from everlog import Chat, Everlog, EverlogError, Memory, tool
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.store import open_store
from everlog.store.keys import MasterKeys

PROVIDERS = {"chat_completions": "openai", "responses": "openai", "anthropic": "anthropic"}
KEYS = MasterKeys(keys=[bytes(range(32))])


@tool
def look(q: str) -> str:
    """Look something up."""
    if q == "raise":
        raise RuntimeError("the tool is broken")
    return f"found {q}: {'r' * int(q)}"


class Speaker:
    """One process's way into threads of a database."""

    def __init__(self, address: str, url: str, tenant: str, options: dict[str, Any], *, sealed: bool) -> None:
        self._store = open_store(address, keys=KEYS if sealed else None)
        self._home = Everlog(self._store, tenant=tenant)
        self._url = url
        self._options = options
        self._memories: dict[str, Memory] = {}

    def memory(self, key: str) -> Memory:
        """Return the memory of a thread."""
        if key not in self._memories:
            options = dict(self._options)
            protocol = options.pop("protocol")
            config = ChatConfig(
                base_urls=dict.fromkeys(("openai", "anthropic"), self._url), environ={}, retry=Retry(retries=0)
            )
            chat = Chat("m-1", provider=PROVIDERS[protocol], protocol=protocol, assume_model_exists=True, config=config)
            chat.with_instructions("You are terse.").with_tools(look)
            self._memories[key] = self._home.attach(chat, key=key, **options)
        return self._memories[key]

    def turn(self, key: str, text: str, *, stream: bool) -> str | None:
        """Take a turn; return how it, or its memory, failed, None if nothing did."""
        memory = self.memory(key)
        try:
            if stream:
                for _ in memory.stream(text):
                    pass
            else:
                memory.turn(text)
        except (EverlogError, RuntimeError) as error:
            return type(error).__name__
        finally:
            assert memory.status().is_well, f"{memory.status()}"
        return None

    def close(self) -> None:
        """Forget all that is not in the database."""
        for memory in self._memories.values():
            memory.close()
        self._memories = {}
        self._store.close()


def obey() -> None:
    """Do what comes in, until nothing more does."""
    speaker: Speaker | None = None
    for line in sys.stdin:
        order = json.loads(line)
        answer: Any = None
        if order["do"] == "open":
            speaker = Speaker(**order["how"])
        elif speaker is not None and order["do"] == "turn":
            answer = speaker.turn(order["key"], order["text"], stream=order["stream"])
        elif speaker is not None:
            speaker.close()
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    obey()
