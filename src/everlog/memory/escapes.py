"""Words of the log as data: in what a model is shown they close no tag, pass for no label, and are text in any encoding.

This is the one place where words are made safe to be shown, for views, opened lines, pages, and the contexts and
sources of a compactor. `<chat` and `</chat` have their `<` written `&lt;`, and what looks like a label (`7+1|` at the
start of a word) has its `|` written `&#124;`; text that holds such an escape already gets one `amp;` more. Halves of
surrogate pairs, which no encoding takes, are shown as U+FFFD. Everything else stays as it is, so `unescape` gives back
every text of whole characters exactly.

A reader that passes over characters without a shape (joiners, variation selectors, marks of direction, tags, controls)
must not be deceived either. So they may stand anywhere in a tag or a label, and before a label they count as the start
of a word, since some of them look like a blank.
"""

import re

UNSEEN = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
    "\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""The inside of a character class: what Unicode says may be ignored, all other characters of format and control but for
line breaks and tabs, and the blank pattern of Braille."""

_UNSEEN = re.compile(f"[{UNSEEN}]+")
_HALF = re.compile("[\ud800-\udfff]")
_IN_LABEL = rf"[0-9{UNSEEN}]"
# Begins where a run of digits and unseen characters does, so that no text, however hostile, is looked at twice.
_LABEL = rf"(?<!{_IN_LABEL})(?:(?<!\S)|(?=[0-9]*+[{UNSEEN}]))({_IN_LABEL}++\+{_IN_LABEL}++)"
_LABEL_OUT = re.compile(rf"{_LABEL}(?:\||&((?:amp;)*)#124;)")
_LABEL_BACK = re.compile(rf"{_LABEL}&((?:amp;)*)#124;")


class _Tag:
    """The escape of one tag."""

    def __init__(self, name: str) -> None:
        letters = f"[{UNSEEN}]*".join(f"[{letter}{letter.upper()}]" for letter in name)
        ahead = rf"(?=[\s/{UNSEEN}]*{letters}(?![^\W{UNSEEN}]))"
        self._out = re.compile(rf"(?:<|&((?:amp;)*)lt;){ahead}")
        self._back = re.compile(rf"&((?:amp;)*)lt;{ahead}")

    def escape(self, text: str) -> str:
        if "<" in text or "lt;" in text:
            text = self._out.sub(lambda m: "&lt;" if m[1] is None else f"&amp;{m[1]}lt;", text)
        return text

    def unescape(self, text: str) -> str:
        return self._back.sub(lambda m: f"&{m[1][4:]}lt;" if m[1] else "<", text)


_CHAT, _INPUT = _Tag("chat"), _Tag("input")


def seen(text: str) -> str:
    """Return text without what has no shape."""
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub("", text)


def whole(text: str) -> str:
    """Return text that can be written as UTF-8: halves of surrogate pairs are U+FFFD."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def escape(text: str) -> str:
    """Return text that holds no `<chat` or `</chat`, no label at the start of a word, and whole characters only."""
    text = _CHAT.escape(whole(text))
    if "+" in text and ("|" in text or "#124;" in text):
        text = _LABEL_OUT.sub(lambda m: f"{m[1]}&#124;" if m[2] is None else f"{m[1]}&amp;{m[2]}#124;", text)
    return text


def unescape(text: str) -> str:
    """Return the text that `escape` was given."""
    return _CHAT.unescape(_LABEL_BACK.sub(lambda m: f"{m[1]}&{m[2][4:]}#124;" if m[2] else f"{m[1]}|", text))


def fence(shown: str) -> str:
    """Return what is escaped already without `<input` and `</input` too, between which a compactor is shown its source."""
    return _INPUT.escape(shown)


def enclose(text: str) -> str:
    """Return text as a compactor is shown it."""
    return fence(escape(text))


def disclose(text: str) -> str:
    """Return the text that `enclose` was given."""
    return unescape(_INPUT.unescape(text))
