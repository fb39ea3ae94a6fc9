"""Each fault that proxies have had elsewhere, on streams, over HTTP and in prompts, is tested here by name.

The numbers are those of the list of known faults. Of those of prompts, what a proxy does that adds nothing to them, or
translates them, is tested; what concerns where memory is put into them is of the modes that put it there.
"""

import pytest

from tests.unit.known import is_there, listed

SDKS, WIRE = "acceptance/test_relay.py", "acceptance/test_relay_wire.py"
RELAYING, RECORDING, SHAPES = (
    "unit/proxy/test_relaying.py",
    "unit/proxy/test_recording.py",
    "unit/proxy/test_known_shapes.py",
)
TRANSLATING, ANSWERS, STREAMS = (
    "unit/proxy/test_translating.py",
    "unit/protocols/test_answers.py",
    "unit/protocols/test_streams.py",
)
ARRIVE = f"{SDKS}::test_faults_1_2_5_7_calls_arrive_whole_and_the_same_streamed_or_not"
USAGE = f"{SDKS}::test_faults_8_and_9_usage_is_not_asked_for_in_the_place_of_the_client"
SILENCE = f"{SDKS}::test_faults_10_13_14_comments_and_empty_chunks_pass_and_none_is_added"
REFUSED = f"{SDKS}::test_faults_17_and_27_a_refusal_is_the_same_with_its_headers"
NO_EVENT = f"{STREAMS}::test_no_event_makes_a_stream_fail"
PACKED = f"{RELAYING}::test_faults_25_and_31_a_compressed_body_comes_down_raw_with_its_encoding"
UNTOUCHED = f"{SHAPES}::test_a_prompt_of_any_shape_goes_up_as_the_very_object_that_came"

TESTED: dict[int, str | tuple[str, ...]] = {
    # Of a call that comes in pieces only the first names it.
    1: (ARRIVE, f"{TRANSLATING}::test_pieces_of_arguments_without_an_id_belong_to_the_call_of_their_number"),
    # A whole call in one piece loses its id and its name.
    2: (ARRIVE, f"{ANSWERS}::test_a_call_that_comes_whole_keeps_its_id_its_name_and_its_arguments"),
    # Arguments come only when they are done.
    4: (
        f"{SDKS}::test_fault_4_oddities_of_a_server_reach_the_client_as_they_are",
        f"{TRANSLATING}::test_arguments_and_words_that_come_only_when_they_are_done_are_told",
    ),
    # The input of a call is empty after a stream.
    5: (ARRIVE, f"{TRANSLATING}::test_calls_have_their_input_and_their_reason_streamed_or_not"),
    # Streamed and not streamed, an answer differs.
    7: (
        ARRIVE,
        f"{TRANSLATING}::test_any_answer_comes_back_the_same_streamed_in_any_manner_or_not",
        f"{RECORDING}::test_streamed_or_not_the_log_is_the_same_wherever_the_stream_is_cut",
    ),
    # A proxy asks for usage in the place of the client.
    8: USAGE,
    # A chunk without choices comes to a client that did not ask for usage.
    9: (USAGE, f"{TRANSLATING}::test_a_chat_that_did_not_ask_for_tokens_gets_no_chunk_without_choices"),
    # A chunk without choices breaks who listens.
    10: (SILENCE, NO_EVENT),
    # Deltas come in bursts.
    11: (
        f"{WIRE}::test_fault_11_each_event_is_at_the_client_before_the_next_one_is_sent",
        f"{TRANSLATING}::test_each_piece_goes_out_as_it_comes",
    ),
    # A comment with a blank line behind it is an event without data to an SDK.
    13: (SILENCE, f"{TRANSLATING}::test_what_keeps_an_upstreams_connection_alive_is_no_event_for_the_client"),
    # A frame of data that is no JSON.
    14: (SILENCE, NO_EVENT),
    # Which event is the last depends on the protocol.
    15: (
        f"{SDKS}::test_fault_15_a_stream_of_responses_ends_with_its_last_event",
        "unit/proxy/test_terminal.py::test_a_stream_in_whole_frames_goes_out_up_to_the_last_one",
    ),
    # A refusal of a stream becomes a 200, or another status.
    17: (
        REFUSED,
        f"{RELAYING}::test_fault_17_a_refusal_of_a_stream_keeps_its_status_and_type",
        f"{RELAYING}::test_no_answer_is_502_and_a_late_one_504_in_the_words_of_the_client",
    ),
    # A server on the way gathers the stream.
    18: f"{RELAYING}::test_fault_18_no_server_on_the_way_may_gather_a_stream",
    # A layer of a web framework does.
    19: f"{SHAPES}::test_fault_19_no_layer_of_a_framework_is_between_a_server_and_the_relay",
    # Escaped pairs and lone halves of them.
    21: (
        f"{SHAPES}::test_fault_21_an_escaped_pair_is_one_character_and_a_lone_half_is_kept",
        f"{WIRE}::test_fault_21_a_body_of_any_bytes_goes_up_as_it_is_whatever_its_size",
    ),
    # The upstream works on for a client that is gone.
    22: (
        f"{RELAYING}::test_fault_22_a_client_that_leaves_before_the_first_byte_takes_its_request_along",
        f"{RELAYING}::test_fault_22_a_client_that_leaves_in_mid_answer_closes_the_upstream",
        f"{SDKS}::test_fault_22_a_client_that_leaves_ends_the_request_to_the_upstream",
        f"{RECORDING}::test_where_nobody_answers_there_is_no_trace_and_where_the_client_goes_there_is",
    ),
    # A compressed body under the wrong header.
    25: (
        PACKED,
        f"{RELAYING}::test_fault_25_only_encodings_that_can_be_decoded_are_asked_for",
        f"{WIRE}::test_faults_25_and_31_a_compressed_answer_is_passed_on_as_it_is",
    ),
    # A compressed stream is recorded as nothing.
    26: f"{RELAYING}::test_fault_26_who_listens_hears_words_and_not_their_compression",
    # When to come back, and what is left of limits, is lost.
    27: (REFUSED, f"{RELAYING}::test_fault_27_limits_and_names_of_requests_come_down"),
    # A web page may not ask, or not with the headers of its SDK.
    28: f"{WIRE}::test_fault_28_pages_of_this_machine_and_apps_may_ask_and_send_any_header",
    # Versions and betas are lost, or are there twice.
    29: f"{RELAYING}::test_fault_29_versions_and_betas_go_up_unchanged_and_nothing_is_there_twice",
    # A compressed refusal cannot be read.
    31: PACKED,
    # The beginning of a prompt changes.
    32: (UNTOUCHED, f"{TRANSLATING}::test_what_was_sent_is_the_beginning_of_what_is_sent_next"),
    # A system message that is not the first.
    33: (UNTOUCHED, f"{TRANSLATING}::test_a_system_message_in_the_middle_stays_where_it_is"),
    # A prompt without a user.
    34: (UNTOUCHED, f"{SHAPES}::test_fault_34_a_prompt_without_a_user_is_translated_to_words_of_the_system_alone"),
    # Thinking is written anew, and its signature is not true any more.
    35: (UNTOUCHED, "unit/protocols/test_history.py::test_a_reply_is_replayed_as_it_came"),
    # Reasoning is parted from the call that it led to.
    36: (
        UNTOUCHED,
        f"{SHAPES}::test_faults_36_and_37_of_sealed_reasoning_no_reference_is_left_behind_or_made_up",
        "unit/protocols/test_repair.py::test_a_lawful_body_is_returned_as_it_is",
    ),
    # References to what no server holds; a summary that is empty.
    37: (UNTOUCHED, f"{SHAPES}::test_fault_37_no_id_of_an_item_is_made_up_for_an_upstream_of_responses"),
    # An image is counted by its letters.
    38: (
        f"{SHAPES}::test_fault_38_a_part_that_is_no_text_is_not_counted_by_its_letters",
        f"{TRANSLATING}::test_an_estimate_of_tokens_counts_an_image_as_one_and_not_as_its_letters",
    ),
    # The caller's system prompt is replaced.
    39: (UNTOUCHED, f"{SHAPES}::test_fault_39_the_callers_system_prompt_comes_through_word_for_word_and_alone"),
}

OF_MEMORY: dict[int, str] = {
    32: "where memory stands, and that it stays there while it is unchanged",
    33: "joining memory to the system message or to the last user message, for servers that take it nowhere else",
    34: "what memory does to a prompt without a user",
    36: "that memory is put before the last user item, and never into a turn",
    39: "that memory is put beside the caller's system prompt",
}
"""What is left of a fault for the modes that put memory into prompts; there are none yet."""

NUMBERS = {*range(1, 40)} - {3, 6, 12, 16, 20, 23, 24, 30}
"""All there are on streams, HTTP and prompts; some numbers were never given out."""

FACTS: dict[int, str | tuple[str, ...]] = {
    14: (
        f"{SHAPES}::test_fact_14_a_working_directory_is_put_in_order_and_makes_a_project_where_none_is_named",
        f"{SHAPES}::test_fact_14_ours_counts_before_the_older_names_and_those_before_the_ones_of_tools",
    ),
    17: (
        f"{SHAPES}::test_fact_17_who_asks_is_told_and_kept_and_nothing_of_it_goes_up",
        f"{RELAYING}::test_fact_17_nothing_that_is_meant_for_the_proxy_goes_up",
    ),
}
"""Facts of seed 003 that concern what goes through."""


def test_no_known_fault_is_forgotten():
    assert TESTED.keys() == NUMBERS
    assert OF_MEMORY.keys() <= NUMBERS


@pytest.mark.parametrize("test", listed({**TESTED, **{-number: tests for number, tests in FACTS.items()}}))
def test_the_test_of_a_known_fault_or_fact_is_there(test: str):
    assert is_there(test)
