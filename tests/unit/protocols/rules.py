"""What each protocol asks of a history, written from its rules alone: each function names what a provider would refuse."""

import re

ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")


def chat_completions(body):
    messages = body["messages"]
    faults = []
    waiting: list[str] = []
    for i, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                faults.append(f"{i}: a result without its call right before it")
            continue
        if waiting:
            faults.append(f"{i}: calls without a result")
        waiting = []
        if role == "assistant":
            calls = message.get("tool_calls")
            if calls == []:
                faults.append(f"{i}: an empty list of calls")
            waiting = [call["id"] for call in calls or ()]
            if len(set(waiting)) < len(waiting) or not all(waiting):
                faults.append(f"{i}: ids of one round are not unique, or empty")
            if not (message.get("content") or calls or message.get("refusal")):
                faults.append(f"{i}: an assistant without words or calls")
    return faults + (["the end: calls without a result"] if waiting else [])


def responses(body):
    faults = []
    calls, outputs, ids = set(), set(), set()
    for i, item in enumerate(body["input"]):
        kind = item.get("type", "message")
        if "id" in item:
            if item["id"] in ids:
                faults.append(f"{i}: an id twice")
            ids.add(item["id"])
        if kind in {"function_call", "custom_tool_call", "shell_call"}:
            if item["call_id"] in calls:
                faults.append(f"{i}: two calls with one id")
            if not 0 < len(item["call_id"]) <= 64:
                faults.append(f"{i}: an id that is empty or too long")
            calls.add(item["call_id"])
        elif kind.endswith("_output"):
            if item["call_id"] not in calls or item["call_id"] in outputs:
                faults.append(f"{i}: an output without a call of its own before it")
            outputs.add(item["call_id"])
        elif kind == "reasoning":
            behind = next((one for one in body["input"][i + 1 :] if one.get("type") != "reasoning"), None)
            if behind is None or behind.get("role") in {"user", "system"} or behind.get("type", "").endswith("_output"):
                faults.append(f"{i}: reasoning without what it led to")
    return faults + [f"call {one} has no output" for one in calls - outputs]


def anthropic(body):
    messages = body["messages"]
    faults = []
    ids: list[str] = []
    spoken = [message for message in messages if message["role"] != "system"]
    if spoken and spoken[0]["role"] != "user":
        faults.append("the first message is not the user's")
    waiting: list[str] = []
    for i, message in enumerate(messages):
        blocks = blocks_of(message)
        if not blocks:
            faults.append(f"{i}: an empty message")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if message["role"] == "user":
            if sorted(results) != sorted(waiting):
                faults.append(f"{i}: results {results}, calls {waiting}")
            kinds = [block["type"] == "tool_result" for block in blocks]
            if kinds != sorted(kinds, reverse=True):
                faults.append(f"{i}: results are not first")
            waiting = []
        elif waiting:
            faults.append(f"{i}: calls without results right behind them")
            waiting = []
        faults += [f"{i}: {fault}" for block in blocks for fault in block_faults(block)]
        if message["role"] == "assistant":
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            ids += waiting
            if blocks and blocks[-1]["type"] in {"thinking", "redacted_thinking"}:
                faults.append(f"{i}: reasoning at the end of a message")
            if i < len(messages) - 1:
                done = {block["tool_use_id"] for block in blocks if block["type"] == "web_search_tool_result"}
                later = {
                    block["tool_use_id"]
                    for one in messages[i + 1 :]
                    for block in blocks_of(one)
                    if block["type"] == "web_search_tool_result"
                }
                rest = [block for one in messages[i + 1 :] for block in blocks_of(one)]
                goes_on = all(block["type"] == "tool_result" for block in rest)
                steps = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
                if steps - done - later and not goes_on:
                    faults.append(f"{i}: a step of the provider without its result")
    if len(set(ids)) < len(ids):
        faults.append("ids are not unique")
    if waiting:
        faults.append("the end: calls without results")
    last = blocks_of(messages[-1])[-1] if messages and blocks_of(messages[-1]) else {}
    if messages and messages[-1]["role"] == "assistant" and last.get("text", "") != last.get("text", "").rstrip():
        faults.append("the end: blanks")
    if marks(body) > 4:
        faults.append("more than four marks")
    return faults


def blocks_of(message):
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def block_faults(block):
    match block["type"]:
        case "text" if not block["text"].strip():
            return ["a blank text"]
        case "tool_use" if not isinstance(block["input"], dict):
            return ["arguments that are no object"]
        case "tool_use" if not ANTHROPIC_ID.fullmatch(block["id"]):
            return ["an id of other letters"]
        case "thinking" if not block.get("signature"):
            return ["reasoning without a signature"]
        case "tool_result" if isinstance(block.get("content"), list):
            return [fault for one in block["content"] for fault in block_faults(one)]
    return []


def marks(value):
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(map(marks, value.values()))
    return sum(map(marks, value)) if isinstance(value, list) else 0


RULES = {"chat_completions": chat_completions, "responses": responses, "anthropic": anthropic}
