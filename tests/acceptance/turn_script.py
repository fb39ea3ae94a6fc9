"""A day of a chat with a memory, as a script that can be killed anywhere; what was answered is noted in a file."""

from pathlib import Path
from typing import Any

import everlog
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.testing.upstream import Answer, Upstream

TURNS = 4
BUDGET = 900


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Sun in {city}."


def answer(received: Any) -> Answer:
    """Call a tool of the user's and one of memory's in the second turn, else say what is answered."""
    said = received.body["messages"]
    newest = next(one["content"] for one in reversed(said) if one["role"] == "user")
    if newest.startswith("say 1") and said[-1]["role"] == "user":
        return Answer(text="I look.", calls=(("w", "weather", {"city": "Roscoff"}), ("z", "zoom", {"id": 0, "n": 1})))
    return Answer(text=f"answer to {newest} " + "with words about the harbour " * 8)


def attached(log: "everlog.Everlog", upstream: Upstream, **wishes: Any) -> "everlog.Memory":
    """A memory of the thread `day`."""
    config = ChatConfig(base_urls={"openai": upstream.url}, environ={}, retry=Retry(retries=0))
    chat = everlog.Chat("m-1", provider="openai", protocol="chat_completions", assume_model_exists=True, config=config)
    wishes = {"budget": BUDGET, "pump": "inline", **wishes}
    return log.attach(chat.with_tools(weather), key="day", **wishes)


def script(folder: Path) -> None:
    """Some turns, each noted when it was answered."""
    with Upstream(answer) as upstream, everlog.open(folder / "everlog.db") as log:
        memory = attached(log, upstream)
        for n in range(TURNS):
            reply = memory.turn(f"say {n}")
            with (folder / "answered").open("a") as file:
                file.write(f"say {n}\t{reply.text}\n")
        memory.close()


def talk(address: str, name: str, turns: int) -> None:
    """Some turns of one of several processes."""
    with Upstream(answer) as upstream, everlog.open(address) as log:
        memory = attached(log, upstream)
        for n in range(turns):
            memory.turn(f"{name} {n}")
        memory.close()
