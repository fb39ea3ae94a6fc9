"""Each fault that trees of this kind have had elsewhere is tested here by name, or cannot happen for a reason.

The numbers are those of the list of known faults. What concerns batches alone is not here.
"""

import pytest

from tests.unit.known import is_there, listed

FOLD = "unit/memory/test_fold.py"
TREE, MODELS = "conformance/test_tree.py", "conformance/test_tree_models.py"
TOOLS, SEARCH = "conformance/test_tree_tools.py", "conformance/test_tree_search.py"
HOSTILE = "conformance/test_tree_hostile.py::test_nothing_that_is_said_passes_for_a_line_a_tag_or_an_answer"
ASKING, WORKER = "conformance/test_pump_asking.py", "conformance/test_pump_worker.py"
REPLIES = "unit/memory/test_replies.py"
EPOCHS, TURNS, TALKS = (
    "unit/context/test_epochs.py",
    "unit/conversation/test_turns.py",
    "unit/conversation/test_long_talks.py",
)
LAWS = "conformance/test_turns_laws.py"
GROWS = f"{LAWS}::test_whatever_happens_prompts_grow_at_their_end_within_their_budget_and_the_log_is_true"
CROSSES = f"{LAWS}::test_a_conversation_crosses_epochs_in_two_processes_one_of_them_inside_a_turn"
DOWN = f"{TALKS}::test_while_the_compactor_is_down_turns_go_on_with_placeholders_and_say_so"
ENTRIES, TOGETHER, KEYS = (
    "unit/log/test_entries.py",
    "conformance/test_log_together.py",
    "conformance/test_store_keys.py",
)

TESTED: dict[int, str | tuple[str, ...]] = {
    1: f"{FOLD}::test_no_budget_is_ever_exceeded_by_a_single_byte",
    2: f"{FOLD}::test_nodes_that_land_after_a_view_was_saved_do_not_push_it_over_its_budget",
    3: f"{FOLD}::test_twenty_thousand_messages_with_nothing_built_stay_within_the_budget",
    5: (
        f"{FOLD}::test_a_budget_below_one_line_ends_in_the_shortest_lawful_view",
        f"{EPOCHS}::test_a_budget_that_is_too_small_is_refused_and_a_window_that_is_too_small_names_the_sizes",
    ),
    6: f"{FOLD}::test_the_pair_that_merges_next_is_the_most_due",
    7: f"{FOLD}::test_the_pair_that_merges_next_is_the_most_due",
    8: f"{FOLD}::test_the_pair_that_merges_next_is_the_most_due",
    9: (f"{TREE}::test_a_saved_view_grows_and_is_the_same_in_another_process", GROWS),
    11: f"{TREE}::test_a_saved_view_that_does_not_tile_is_made_anew_once",
    13: f"{TREE}::test_a_view_that_cannot_be_saved_is_shown_all_the_same",
    14: f"{FOLD}::test_a_larger_budget_splits_nothing",
    15: f"{FOLD}::test_a_batch_that_lacks_a_node_goes_on_at_later_messages_below_the_budget",
    16: HOSTILE,
    17: f"{TREE}::test_a_leaf_that_was_lost_below_a_line_changes_no_view_hides_no_word_and_comes_back_by_a_rebuild",
    18: HOSTILE,
    19: (
        CROSSES,
        f"{TURNS}::test_requests_of_an_epoch_begin_with_the_one_before_also_after_a_restart",
        f"{TURNS}::test_a_turn_that_waited_goes_on_after_a_restart",
        f"{EPOCHS}::test_lines_that_are_built_change_nothing_until_half_of_them_are_and_a_power_of_two_of_turns_has_passed",
    ),
    21: f"{FOLD}::test_a_read_after_one_message_looks_only_at_what_it_shows",
    22: f"{FOLD}::test_a_long_log_that_is_barely_built_is_read_without_looking_at_all_of_it",
    23: f"{MODELS}::test_a_message_that_no_model_can_shorten_gets_clauses_of_itself_and_the_rest_goes_on",
    25: f"{REPLIES}::test_what_cannot_be_kept_has_a_reason",
    26: f"{REPLIES}::test_what_cannot_be_kept_has_a_reason",
    27: f"{REPLIES}::test_a_copied_label_and_a_bullet_are_taken_off",
    28: f"{REPLIES}::test_a_copied_ruler_is_taken_off",
    29: f"{REPLIES}::test_what_cannot_be_kept_has_a_reason",
    30: (
        f"{REPLIES}::test_what_cannot_be_kept_has_a_reason",
        f"{TURNS}::test_a_failure_keeps_the_users_message_and_the_next_turn_works",
    ),
    31: f"{REPLIES}::test_what_cannot_be_kept_has_a_reason",
    33: (
        f"{MODELS}::test_what_our_own_tools_brought_back_is_not_said_again",
        f"{TURNS}::test_calls_of_memorys_own_tools_are_sent_again_but_are_no_entries",
        f"{EPOCHS}::test_rounds_of_memory_tools_stay_in_place_and_go_with_the_epoch",
    ),
    34: "unit/memory/test_prompts.py"
    "::test_an_order_to_the_model_is_material_between_the_tags_of_the_input_and_stands_nowhere_else",
    35: f"{MODELS}::test_short_messages_are_built_at_once_even_after_one_that_never_is",
    38: (
        f"{MODELS}::test_while_nothing_can_be_built_a_view_shows_placeholders_and_the_run_says_why_and_it_goes_on_later",
        DOWN,
    ),
    39: (f"{WORKER}::test_a_thread_in_trouble_sleeps_and_the_others_go_on", DOWN),
    40: "unit/pump/test_compactors.py::test_what_never_left_is_sent_twice_more_and_then_the_provider_is_down",
    41: f"{ASKING}::test_a_pass_that_takes_too_long_is_given_up_and_a_late_answer_is_dropped",
    42: f"{ASKING}::test_what_is_no_ordinary_error_is_raised_after_the_pass_and_the_other_answers_are_kept",
    43: f"{ASKING}::test_an_error_of_on_result_is_logged_and_ignored_and_any_other_is_raised_after_all_results",
    46: "conformance/test_pump.py::test_the_lease_of_a_process_that_is_gone_is_free_at_once",
    45: f"{MODELS}::test_an_answer_that_comes_after_an_erasure_is_not_kept_and_neither_is_a_try",
    47: f"{MODELS}::test_no_later_text_and_no_placeholder_is_in_a_context",
    48: f"{TALKS}::test_reasoning_and_what_memory_tells_the_model_are_no_words_of_the_conversation",
    51: "unit/memory/test_prompts.py::test_a_further_try_goes_on_in_the_same_conversation_in_bytes",
    55: "acceptance/test_cli_edges.py::test_output_is_utf8_whatever_the_locale",
    56: "acceptance/test_cli_bad_input.py::test_a_file_that_cannot_be_read_is_named_in_one_line_and_nothing_is_stored",
    57: f"{TREE}::test_a_line_that_cannot_be_read_names_what_makes_it_again_and_that_does",
    58: f"{TOOLS}::test_a_pair_and_its_first_message_both_open_in_one_turn_in_either_order",
    59: f"{TOOLS}::test_counters_land_on_the_line_that_was_opened_and_events_on_the_leaf_that_was_reached",
    60: f"{TOOLS}::test_the_lines_of_the_vectors_open_as_they_say",
    62: f"{TOOLS}::test_a_message_opens_whole_where_nothing_is_built",
    63: "unit/memory/test_lookup.py::test_pages_join_to_the_text_also_as_an_agent_reads_them",
    64: f"{TOOLS}::test_each_page_of_a_long_message_is_a_line_of_its_own_to_the_guard",
    65: f"{SEARCH}::test_a_word_that_only_a_summary_has_is_not_found",
    66: f"{SEARCH}::test_a_mask_that_fails_hides_the_message_and_is_counted_without_its_text",
    68: f"{SEARCH}::test_no_usable_words_or_a_bad_before_is_an_answer_that_does_not_count",
    69: HOSTILE,
    72: "conformance/test_store_sqlite.py::test_a_full_disk_is_a_clear_error_nothing_is_half_done_and_later_it_works_again",
    73: f"{TOGETHER}::test_positions_are_given_out_once_to_writers_at_the_same_time",
    75: "unit/log/test_verify.py::test_each_kind_of_damage_is_found_where_it_is",
    77: f"{ENTRIES}::test_a_client_key_with_other_content_is_a_conflict",
    78: f"{ENTRIES}::test_a_client_key_with_the_same_content_is_stored_once",
    79: (
        f"{TURNS}::test_a_turn_that_is_cancelled_keeps_what_came",
        f"{TURNS}::test_a_stream_that_is_given_up_keeps_the_words_that_came",
        (
            "conformance/test_store_units.py"
            "::test_cancelling_a_task_stores_its_unit_whole_or_not_at_all_and_hurts_no_other"
        ),
    ),
    81: (
        f"{EPOCHS}::test_of_two_that_open_an_epoch_one_wins_and_the_other_reads_again",
        "unit/context/test_prepare.py::test_who_compiled_from_a_row_that_has_changed_keeps_nothing",
        f"{TREE}::test_of_two_readers_who_merge_at_once_one_saves_and_both_show_the_same",
    ),
    82: "unit/conversation/test_intake.py"
    "::test_an_edited_conversation_becomes_a_fork_at_the_edit_and_is_known_from_then_on",
    84: "unit/conversation/test_attach.py"
    "::test_another_protocol_than_the_required_one_is_refused_before_a_turn_is_recorded",
    83: f"{KEYS}::test_encrypting_twice_does_not_wrap_twice",
    87: f"{TREE}::test_a_line_that_cannot_be_read_is_an_error_and_not_one_that_is_not_built_yet",
}

CANNOT_HAPPEN = {
    37: "what is due is told by the one time of a unit, so a clock that moves on between two looks cannot leave it out",
    50: "nothing deletes lines but an erasure and a rebuild that was asked for; a failure writes tries only",
    54: "records are rows found by their key, not by an offset in a file",
    71: "entries are rows, not lines of a file",
    74: "there are no files by day; any number of writers may write, and 73 shows that none takes the other's place",
    76: "there are no files by day; positions alone give the order",
    86: "the count of entries and the lines are read in one snapshot, so no line lies beyond the count",
}

ELSEWHERE = {49, 85}
"""Of a provider's batches, and of programs in another language: not of what is here."""

NUMBERS = {*range(1, 88)} - {4, 10, 12, 20, 24, 32, 36, 44, 52, 53, 61, 67, 70, 80}
"""All there are; some numbers were never given out."""


def test_no_known_fault_is_forgotten():
    assert TESTED.keys() | CANNOT_HAPPEN.keys() | ELSEWHERE == NUMBERS
    assert len(TESTED) + len(CANNOT_HAPPEN) + len(ELSEWHERE) == len(NUMBERS)


@pytest.mark.parametrize("test", listed(TESTED))
def test_the_test_of_a_known_fault_is_there(test: str):
    assert is_there(test)
