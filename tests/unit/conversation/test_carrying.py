"""Attachments that a protocol does not carry: refused where they are said, and no trouble for whoever asks later."""

import pytest

from everlog import Media, PartTooLarge, UnsupportedAttachment, attachment
from everlog.testing.upstream import Answer

PDF = attachment(b"%PDF-1.7 the harbour", name="harbour.pdf")
SOUND = Media(media_type="audio/wav", content=b"RIFF....WAVE", name="tide.wav")


@pytest.mark.parametrize("protocol", ["chat_completions", "anthropic"])
def test_what_cannot_be_sent_is_refused_before_it_is_recorded(remembering, protocol):
    made = remembering(Answer(text="Yes."), protocol=protocol)
    with pytest.raises(UnsupportedAttachment):
        made.turn("Look.", with_=attachment(b"PK\x03\x04", name="all.zip"))
    assert made.upstream.requests == []
    assert made.turn("Then not.").text == "Yes."
    assert made.logged == [("user", "Then not."), ("assistant", "Yes.")]


def test_what_is_too_large_is_refused_before_it_is_recorded(remembering, monkeypatch):
    monkeypatch.setattr("everlog.chat.attachments.INLINE_BYTES", {"anthropic": 10})
    made = remembering(Answer(text="Yes."), protocol="anthropic")
    with pytest.raises(PartTooLarge):
        made.turn("Look.", with_=PDF)
    assert made.turn("Then not.").text == "Yes."


def test_what_one_model_was_shown_is_named_to_another_that_does_not_take_it(remembering):
    made = remembering(*[Answer(text="Waves.")] * 3, budget=20_000)
    made.turn("What do you hear?", with_=SOUND)
    assert "input_audio" in str(made.bodies[0])
    made.protocol = "anthropic"
    made.again()
    assert made.turn("And now?").text == "Waves."
    assert "[attachment tide.wav: this model does not take it]" in str(made.bodies[1])
    made.protocol = "chat_completions"
    made.again()
    made.turn("And again?")
    assert "input_audio" in str(made.bodies[2]), "the log has it still"


def test_a_text_that_is_attached_is_shown_in_words_to_every_model(remembering):
    made = remembering(*[Answer(text="At noon.")] * 2, protocol="responses")
    made.turn("When?", with_=attachment(b"Tide at noon.", name="notes.txt"))
    made.turn("Sure?")
    assert "Tide at noon." in str(made.bodies[1])
