//! One suite for both databases: what the store promises must hold on each of them alike.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken expectation is how a test fails, in what it calls too")]

mod commits;
mod concurrency;
mod full_disk;
mod leadership;
mod lost_answer;
mod opening;
mod place;
mod reads;
mod records;
mod sample;

/// Runs each behaviour on both databases; the module in a test's name says which.
macro_rules! on_both {
    ($($group:ident: $($name:ident)*;)*) => {
        mod sqlite {
            $($(
                #[tokio::test]
                async fn $name() {
                    let place = crate::place::Place::sqlite();
                    crate::$group::$name(&place).await;
                }
            )*)*
        }
        mod postgres {
            $($(
                #[tokio::test]
                async fn $name() {
                    let place = crate::place::Place::postgres().await;
                    crate::$group::$name(&place).await;
                    place.remove().await;
                }
            )*)*
        }
    };
}

on_both! {
    commits:
        every_kind_of_row_comes_back_as_it_was_written
        a_row_with_another_version_is_stale_and_nothing_is_written
        numbers_are_checked_only_when_something_is_created
        an_ended_row_is_checked_by_the_database
        the_move_is_noted_on_the_event_that_moved
        several_tasks_are_written_together
        one_stale_task_of_several_keeps_the_others_unwritten
        a_part_gets_the_number_it_was_decided_with
        a_settled_effect_keeps_its_first_result
        a_key_answers_once
        a_heartbeat_is_kept_by_the_holder_alone
        a_decision_does_not_undo_a_heartbeat
        a_typical_commit_is_a_handful_of_statements;
    concurrency:
        creators_never_share_a_number
        many_writers_leave_no_gap_and_listeners_see_the_order
        only_the_guilty_request_of_a_group_fails
        a_dropped_caller_leaves_nothing_half_done
        reopening_gives_the_same_state;
    leadership:
        a_second_process_waits_until_the_right_ends
        a_process_that_lost_the_right_writes_nothing_more
        another_writer_is_noticed_and_its_work_is_seen;
    opening:
        a_fresh_schema_has_exactly_the_expected_tables
        a_newer_schema_is_refused
        the_tables_of_another_program_are_refused
        a_closed_store_refuses_politely;
    reads:
        references_find_open_and_ended_tasks
        lists_are_filtered_and_paged
        events_are_read_by_number_and_by_task
        memory_answers_without_a_statement;
    records:
        transcripts_are_cut_and_capped
        a_transcript_that_is_sent_twice_is_kept_once
        refused_calls_arrive_in_batches
        refused_calls_beyond_the_queue_are_dropped
        old_records_are_removed_and_young_ones_stay
        a_token_is_found_by_its_digest_and_replaced_by_its_name;
}
