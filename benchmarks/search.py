"""Searching a thread for words, cold: nothing is kept between two searches, so each reads and compares every message."""

import random

from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import engine, folder, opened, words
from everlog import Message, NewTurn, Thread
from everlog.memory.tree.search import MAX_MESSAGES, search
from everlog.tokens import cut

ROUNDS = 3
TENANT = "default"
MISSING = {
    "ASCII": "zeppelin harbourmaster 48213",
    "mixed": "zeppelin straßenbahn 48213",
    "Japanese": "飛行船 灯台守 48213",
}
"""Words that no message has all of, so that nothing ends the scan early."""

_ACCENTS = ["café", "Straße", "ﬁnal", "naïve", "Ｗｉｄｅ", "会議は明日", "Москва", "½"]
_KANA = [
    "会議は来週の火曜日に変更されました。",
    "ありがとうございます！",
    "サーバーを再起動（さいきどう）してください。",
    "エラー：接続できません。",
    "ＡＰＩのバージョンは２．０です。",
    "バックアップは完了しましたか？",
    "　では、次の課題に進みましょう。",
    "データベースの容量が足りません。",
]


def measure(sheet: Sheet) -> None:
    """Measure it in three scripts, plain, and encrypted for the first."""
    count, size = sheet.pick(MAX_MESSAGES, 200), 500
    for script, encrypted, bound in (
        ("ASCII", False, 500),
        ("mixed", False, 800),
        ("ASCII", True, 1_000),
        ("mixed", True, 1_000),
        ("Japanese", False, 2_000),
    ):
        times = Times()
        with folder() as place, opened(place / "everlog.db", encrypted=encrypted) as memory:
            thread = memory.thread("talk")
            _grow(thread, count, size, script)
            for _ in range(ROUNDS):
                found = times.take(search, memory.store, TENANT, thread.id, MISSING[script], seconds=_still)
                assert (found.start, found.stop) == (0, count), "every message was searched"
        shape = f"{count:,} × {size} B"
        sheet.row(
            f"search, 3 words, {script}", shape, engine(encrypted=encrypted), times.best * 1000, "ms", at_most=bound
        )
        sheet.row(f"search, 3 words, {script}, CPU", shape, engine(encrypted=encrypted), times.cpu_ms(), "ms")


def _still() -> float:
    """Tell the search that no time passes: on a busy machine too it is to go through all there is."""
    return 0.0


def _grow(thread: Thread, count: int, size: int, script: str) -> None:
    """Fill a thread with messages of one script; of the mixed ones 56 in 100 are ASCII."""
    draw = random.Random(7)
    for page in range(0, count, 500):
        texts = [_text(draw, i, size, script) for i in range(page, min(page + 500, count))]
        thread.extend([NewTurn(messages=(Message(kind="user", text=text),)) for text in texts])


def _text(draw: random.Random, i: int, size: int, script: str) -> str:
    if script == "Japanese":
        return cut("".join(draw.choices(_KANA, k=size // 20)), size)
    if script == "mixed" and draw.random() >= 0.56:
        begin = words(i, size).split(" ")
        for _ in range(6):
            begin[draw.randrange(len(begin))] = draw.choice(_ACCENTS)
        return cut(" ".join(begin), size)
    return words(i, size)


if __name__ == "__main__":
    raise SystemExit(fill("search", measure))
