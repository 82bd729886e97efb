//! Runs: rights that end, runs that are no longer heard, crashes, and runs that bring nothing.

super::scenarios! {
    a_right_that_nobody_renews_ends: "
        given leaf in working
        expire                                         -> working, no event, lease be-dev-1
        ends be-dev-1 lost                             -> working, lease be-dev-1
        after 601s
        expire                                         -> ready, lease none, owner be-dev-1, event task.released, next be-dev-1 i_will_work_on
        be-dev-2 i_will_work_on                        -> refused not_authorized
        be-dev-1 i_will_work_on plan= steps=           -> working, lease be-dev-1
        anew
        given leaf in reviewing
        after 601s
        expire                                         -> qa, lease none, next be-qa claim_review
        anew
        given leaf in documenting
        after 601s
        expire                                         -> docs, lease none, next be-doc claim_doc_task
    ";
    the_next_run_of_the_same_agent_inherits_the_right: "
        given leaf in working                          -> run 1
        ends be-dev-1 lost
        starts be-dev-1 i_will_work_on                 -> lease be-dev-1, run 2
        be-dev-1 commit                                -> event commit.recorded
    ";
    a_run_that_was_replaced_is_not_heard: "
        given leaf in working
        ends be-dev-1 lost
        starts be-dev-1 i_will_work_on
        old-be-dev-1 commit                            -> refused superseded, working, no event
        old-be-dev-1 i_am_done                         -> refused superseded, working
        old-be-dev-1 i_am_idle                         -> refused superseded, hold none
        be-dev-1 i_am_done                             -> qa
    ";
    a_revoked_run_is_not_heard: "
        given leaf in working
        revoke be-dev-1                                -> event spawn.revoked
        revoke be-dev-1                                -> no event
        be-dev-1 commit                                -> refused superseded, try none, working
        ends be-dev-1 stopped
        starts be-dev-1 i_will_work_on
        be-dev-1 commit                                -> event commit.recorded
    ";
    a_seat_runs_once: "
        given leaf in ready
        starts be-dev-1 i_will_work_on                 -> event spawn.intended spawn.started
        starts be-dev-1 i_will_work_on                 -> refused invalid_state
        ends be-dev-1 crashed                          -> event spawn.ended
        starts be-dev-1 i_will_work_on                 -> event spawn.intended spawn.started
    ";
    held_and_ended_tasks_start_no_run_but_for_whoever_helps: "
        given leaf in ready held blocked cell_pm
        starts be-dev-1 i_will_work_on                 -> refused invalid_state
        starts be-pm unblock                           -> event spawn.intended spawn.started
        anew
        given leaf in working held paused agent
        starts be-dev-2 i_will_work_on                 -> refused invalid_state
        starts be-dev-2 resume                         -> event spawn.intended spawn.started
        anew
        given leaf in done
        starts be-qa claim_review                      -> refused invalid_state
        anew
        given leaf in qa held budget
        starts be-qa claim_review                      -> refused invalid_state
    ";
    crashes_back_off_and_then_wait_for_the_ceo: "
        given leaf in ready
        starts be-dev-1 i_will_work_on
        ends be-dev-1 crashed                          -> cooldown 10s, strikes 1, hold none
        after 10s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 crashed                          -> cooldown 30s
        after 30s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 crashed                          -> cooldown 90s
        after 90s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 crashed                          -> cooldown 270s, hold none
        after 270s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 crashed                          -> hold blocked human, inbox 1, next ceo
        ceo unblock                                    -> hold none, strikes 0, cooldown 0s, next be-dev-1+be-dev-2
    ";
    crashes_of_an_hour_ago_are_forgotten: "
        given leaf in ready
        starts be-dev-1 i_will_work_on
        ends be-dev-1 crashed                          -> cooldown 10s
        after 3601s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 crashed                          -> cooldown 10s
    ";
    runs_without_a_result_cool_down_longer_and_longer: "
        given leaf in ready
        starts be-dev-1 i_will_work_on
        ends be-dev-1 unproductive                     -> strikes 1, cooldown 0s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 unproductive                     -> strikes 2, cooldown 0s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 unproductive                     -> strikes 3, cooldown 300s
        after 300s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 unproductive                     -> strikes 4, cooldown 600s
        after 600s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 unproductive                     -> strikes 5, cooldown 1200s
        after 1200s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 unproductive                     -> strikes 6, cooldown 2400s
        after 2400s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 unproductive                     -> strikes 7, cooldown 3600s
        after 3600s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 unproductive                     -> strikes 8, hold blocked human, inbox 1
    ";
    progress_forgives: "
        given leaf in ready
        starts be-dev-1 i_will_work_on
        ends be-dev-1 unproductive                     -> strikes 1
        starts be-dev-1 i_will_work_on
        be-dev-1 i_will_work_on                        -> working
        ends be-dev-1 crashed                          -> strikes 2, cooldown 10s
        starts be-dev-1 i_will_work_on
        be-dev-1 commit                                -> strikes 0, cooldown 0s
    ";
    what_is_nobodys_fault_is_no_strike: "
        given leaf in working
        ends be-dev-1 lost                             -> strikes 0, cooldown 0s
        starts be-dev-1 i_will_work_on
        ends be-dev-1 stopped                          -> strikes 0, hold none
    ";
    a_run_that_leaves_because_its_provider_refuses_parks_it_and_is_no_strike: "
        given leaf in working
        be-dev-1 i_am_blocked blocker_type=\"provider_limit\" retry_after_s=3600
        ends be-dev-1                                  -> strikes 0, cooldown 0s, hold none, limited be-dev-1 3600s, owner be-dev-1
        be-dev-1 i_will_work_on
        be-dev-1 i_am_blocked blocker_type=\"provider_limit\"
        ends be-dev-1                                  -> strikes 0, limited be-dev-1 60s
        be-dev-1 i_will_work_on
        be-dev-1 i_am_blocked blocker_type=\"provider_limit\" retry_after_s=99999999999
        ends be-dev-1                                  -> limited be-dev-1 604800s
        be-dev-1 i_will_work_on
        be-dev-1 i_am_blocked blocker_type=\"provider_limit\"
        be-dev-1 i_will_work_on
        be-dev-1 i_am_blocked
        ends be-dev-1                                  -> strikes 1, limited be-dev-1 no
    ";
    a_run_that_was_told_to_end_its_turn_while_the_checks_run_is_no_strike: "
        given leaf in working
        hold back
        be-dev-1 i_am_done                             -> self_check, pending gate, closed be-dev-1 none
        leaves be-dev-1 i_am_done                      -> event spawn.left, closed be-dev-1 i_am_done, pending gate, lease be-dev-1
        leaves be-dev-1 i_am_done                      -> no event
        ends be-dev-1                                  -> strikes 0, cooldown 0s, next waits
        git gate failed
        settle                                         -> refused tracing_gap, self_check, next be-dev-1 i_will_work_on
        be-dev-1 i_will_work_on                        -> self_check, lease be-dev-1
        be-dev-1 i_am_done                             -> qa
    ";
    giving_back_and_idling_are_strikes: "
        given leaf in working
        be-dev-1 unclaim                               -> ready
        ends be-dev-1                                  -> strikes 1
        starts be-dev-2 i_will_work_on
        be-dev-2 i_will_work_on
        be-dev-2 i_am_idle                             -> hold paused agent
        ends be-dev-2                                  -> strikes 2
        starts be-dev-2 resume
        be-dev-2 resume                                -> hold none, strikes 2
    ";
    blocking_and_unblocking_in_turn_ends_with_the_ceo: "
        given leaf in working
        be-dev-1 i_am_blocked
        ends be-dev-1                                  -> strikes 1
        be-pm unblock                                  -> strikes 1, hold none
        ends be-pm
        be-dev-1 i_will_work_on
        be-dev-1 i_am_blocked
        ends be-dev-1                                  -> strikes 2
        be-pm escalate_up                              -> hold blocked main_pm
        ends be-pm                                     -> strikes 3, cooldown 300s
        main-pm unblock
        ends main-pm                                   -> strikes 3
    ";
}
