"""Each report of a fault in another project's memory is tested here by name, or says why it is not yet.

The numbers are those of the list of reports. The comment beside a number is what went wrong.
"""

import pytest

from tests.unit.known import is_there, listed
from tests.unit.test_known_faults import DOWN, EPOCHS, GROWS, TALKS, TURNS

ROLLING, ATTACH = "conformance/test_rolling.py", "unit/conversation/test_attach.py"
ASKING, STREAMS = "conformance/test_pump_asking.py", "unit/protocols/test_streams.py"
RECORDED = f"{TALKS}::test_reasoning_and_what_memory_tells_the_model_are_no_words_of_the_conversation"

TESTED: dict[int, str | tuple[str, ...]] = {
    # Instructions are broken after a compaction.
    1: f"{TALKS}::test_instructions_are_sent_word_for_word_however_many_epochs_have_passed",
    # A summary of summaries grows without bound.
    2: (
        f"{ROLLING}::test_twenty_rounds_of_a_talkative_model_stay_within_the_cap",
        (
            "unit/memory/test_rolling_outline.py"
            "::test_the_cap_holds_always_and_what_was_protected_is_there_whole_or_pointed_at"
        ),
    ),
    # Compaction makes no progress, and runs in every turn.
    3: (
        f"{ROLLING}::test_a_summary_that_is_no_smaller_than_what_it_stands_for_is_no_progress",
        f"{TALKS}::test_large_instructions_and_a_small_budget_do_not_open_an_epoch_in_every_turn",
    ),
    # A threshold below what is always sent.
    4: (
        f"{TALKS}::test_large_instructions_and_a_small_budget_do_not_open_an_epoch_in_every_turn",
        f"{EPOCHS}::test_a_budget_that_is_too_small_is_refused_and_a_window_that_is_too_small_names_the_sizes",
    ),
    # A prompt that is too long is tried again for ever.
    5: (
        f"{TURNS}::test_a_prompt_that_the_provider_finds_too_long_is_made_shorter_once",
        f"{TALKS}::test_a_prompt_that_stays_too_long_is_an_error_once_and_the_next_turn_goes_on",
    ),
    # Passes without end hold the conversation.
    7: (f"{ASKING}::test_a_pass_that_takes_too_long_is_given_up_and_a_late_answer_is_dropped", DOWN),
    # No overlap is found, and everything is dropped.
    8: (
        "unit/log/test_align.py::test_a_history_without_a_common_word_is_another_thread",
        "unit/log/test_align_laws.py::test_what_follows_the_whole_log_is_appended_exactly",
    ),
    # A call and its result are parted.
    10: (
        f"{EPOCHS}::test_a_cut_never_parts_calls_from_their_results",
        "unit/memory/test_rolling_window.py::test_what_is_shown_parts_no_pair_and_hides_nothing_that_must_be_seen",
        "unit/protocols/test_repair.py::test_any_history_is_lawful_after_repair",
    ),
    # Compaction between a call and its result, while it streams.
    11: (
        "unit/memory/test_rolling_window.py::test_a_round_is_not_torn_and_a_call_without_result_does_not_hold_on_for_ever",
        GROWS,
    ),
    # What is left out is stored, and what stands for it is not.
    15: (
        "unit/context/test_prepare.py::test_who_compiled_from_a_row_that_has_changed_keeps_nothing",
        f"{ROLLING}::test_a_worker_that_dies_anywhere_loses_nothing",
        "acceptance/test_turn_crash.py::test_a_turn_killed_at_every_commit_loses_nothing_and_the_next_goes_on",
    ),
    # What is to be summarised is larger than the model takes.
    16: (
        "unit/memory/test_rolling_replies.py::test_a_piece_that_is_larger_than_a_question_is_clipped_to_fit",
        f"{TALKS}::test_a_prompt_that_stays_too_long_is_an_error_once_and_the_next_turn_goes_on",
    ),
    # The model that summarises fails, or says nothing.
    17: (
        f"{ROLLING}::test_trouble_with_the_model_changes_nothing_and_is_made_up_for",
        f"{ROLLING}::test_after_three_bad_answers_the_originals_stay_and_later_pieces_are_folded",
        (
            "conformance/test_tree_models.py"
            "::test_a_message_that_no_model_can_shorten_gets_clauses_of_itself_and_the_rest_goes_on"
        ),
    ),
    # What was recalled is learned again.
    19: (
        f"{TURNS}::test_calls_of_memorys_own_tools_are_sent_again_but_are_no_entries",
        f"{ROLLING}::test_what_our_own_tools_brought_back_is_not_summarised_again",
        "conformance/test_tree_models.py::test_what_our_own_tools_brought_back_is_not_said_again",
    ),
    # A filter by user that is missing on one path.
    24: (
        "conformance/test_log_tenants.py::test_tenants_never_meet_whatever_they_do_under_the_same_names",
        "conformance/test_store_postgres.py::test_raw_sql_without_a_condition_sees_the_rows_of_the_named_tenant_only",
    ),
    # An erasure says that it is done, and leaves something.
    26: "conformance/test_log_residue.py"
    "::test_no_words_of_what_was_erased_are_in_any_file_also_where_lines_were_derived",
    # A connection for life, and what a server ends while nobody uses it.
    27: "conformance/test_store_postgres.py::test_sessions_that_ended_while_nobody_used_them_are_replaced",
    # Two programs and one file: the database is locked.
    28: "conformance/test_store_sqlite.py::test_two_processes_write_one_file",
    # What changes stands in the prefix that is cached.
    30: f"{EPOCHS}::test_what_is_volatile_stays_where_it_was_and_is_said_again_only_when_it_changes",
    # Blocks of a stream that nobody knows are lost.
    31: f"{STREAMS}::test_unknown_deltas_and_fields_survive",
    # Calls are lost where the answer streams.
    32: f"{STREAMS}::test_a_streamed_answer_is_the_whole_one",
    # Originals are in memory only, and what was opened is compressed again.
    34: (
        f"{EPOCHS}::test_rounds_of_memory_tools_stay_in_place_and_go_with_the_epoch",
        "conformance/test_tree_tools.py::test_a_message_opens_whole_where_nothing_is_built",
    ),
    # Prompts of the program itself are stored as the user's wishes.
    35: (RECORDED, GROWS),
    # Work in the background without bound, and without a price.
    36: (
        f"{ATTACH}::test_lines_are_built_in_the_background_by_one_thread_at_a_time",
        f"{ATTACH}::test_what_may_be_spent_is_asked_before_each_request",
        f"{ATTACH}::test_what_a_turn_costs_is_counted_for_talking",
    ),
    # What waits is pending for ever.
    37: "conformance/test_pump_worker.py"
    "::test_whoever_claims_loses_or_finishes_one_may_write_and_nothing_marked_is_forgotten",
    # All of the history is read in every turn.
    40: (
        f"{TALKS}::test_what_a_turn_reads_of_the_log_does_not_grow_with_it",
        f"{ROLLING}::test_each_message_is_read_once_and_the_newest_are_not",
        "unit/memory/test_fold.py::test_a_read_after_one_message_looks_only_at_what_it_shows",
    ),
}

LATER = {
    21: "facts are not extracted yet, so none can retire another",
    22: "facts are not extracted yet, so none can be given to the wrong speaker",
    25: "there are no vectors yet, so none can be of another model",
    29: "there is no earlier release yet to upgrade from",
    38: "facts are not extracted yet, so no document can have one remembered",
}

NUMBERS = {*range(1, 41)} - {6, 9, 12, 13, 14, 18, 20, 23, 33, 39}
"""All there are; some numbers were never given out."""


def test_no_report_is_forgotten():
    assert TESTED.keys() | LATER.keys() == NUMBERS
    assert not TESTED.keys() & LATER.keys()


@pytest.mark.parametrize("test", listed(TESTED))
def test_the_test_of_a_report_is_there(test: str):
    assert is_there(test)
