//! Authors at work: claiming, committing, submitting, and what effects may come to.

super::scenarios! {
    a_claim_is_for_the_cell_alone: "
        given leaf in ready
        fe-dev-1 i_will_work_on                        -> refused not_authorized, try give_me_work, ready
        be-dev-1 i_will_work_on plan= steps=           -> refused incomplete_input, missing plan steps, try i_will_work_on, ready
        be-dev-1 i_will_work_on plan=todo              -> refused incomplete_input, missing plan
        be-dev-1 i_will_work_on steps=[]               -> refused incomplete_input, missing steps
        be-dev-1 i_will_work_on                        -> working, lease be-dev-1
        be-dev-2 i_will_work_on                        -> refused not_authorized, try give_me_work
        be-dev-2 commit                                -> refused not_authorized, try give_me_work
        be-dev-2 progress                              -> refused not_authorized, try give_me_work
        be-dev-1 commit                                -> event commit.recorded
        be-dev-2 open_pr                               -> refused not_authorized, try give_me_work, no event
        be-dev-2 sync_branch                           -> refused not_authorized, try give_me_work, no event
        be-dev-1 open_pr                               -> event pr.opened
        be-dev-2 i_am_done                             -> refused not_authorized, try give_me_work, working
        be-dev-1 i_will_work_on                        -> working, event task.reentered
    ";
    started_work_is_its_owners_even_when_nobody_is_at_it: "
        given leaf in working
        ceo pause
        ceo resume                                     -> working, lease none
        be-dev-2 i_will_work_on                        -> refused not_authorized, says assigned to be-dev-1, try give_me_work, lease none
        be-dev-2 commit                                -> refused not_authorized, try give_me_work
        be-dev-1 commit                                -> refused not_authorized, try i_will_work_on
    ";
    prerequisites_go_first: "
        given leaf in ready
        given leaf in ready after T-1                  -> next waits
        be-dev-1 i_will_work_on                        -> refused invalid_state, says waits for T-1, try give_me_work, ready
        use T-1
        ceo cancel                                     -> cancelled
        use T-2
        be-dev-1 i_will_work_on                        -> working
    ";
    one_task_at_a_time: "
        given leaf in ready
        given leaf in working
        use T-1
        be-dev-1 i_will_work_on                        -> refused invalid_state, says already work on T-2, try give_me_work, ready
        be-dev-2 i_will_work_on                        -> working
    ";
    a_claimed_revision_is_work_in_hand: "
        given leaf in revision
        given leaf in ready
        use T-1
        hold back
        be-dev-1 i_will_work_on                        -> revision, lease be-dev-1, status claimed
        use T-2
        be-dev-1 i_will_work_on                        -> refused invalid_state, says already work on T-1
    ";
    what_was_set_aside_goes_first: "
        given leaf in working
        be-dev-1 i_am_idle                             -> working, hold paused agent, lease none
        given leaf in ready
        be-dev-1 i_will_work_on                        -> refused invalid_state, says set T-1 aside, try resume, ready
        use T-1
        be-dev-1 resume                                -> working, lease be-dev-1
    ";
    two_tasks_in_hand_are_worked_on_one_after_the_other: "
        given leaf in working
        ceo pause                                      -> working, lease none
        given leaf in ready
        be-dev-1 i_will_work_on                        -> working, lease be-dev-1
        use T-1
        ceo resume                                     -> working, lease none
        be-dev-1 i_will_work_on                        -> refused invalid_state, says already work on T-2, lease none
        use T-2
        be-dev-1 i_am_blocked                          -> hold blocked cell_pm
        use T-1
        be-dev-1 i_will_work_on                        -> working, lease be-dev-1
        use T-2
        ceo unblock                                    -> hold none, working
        use T-1
        be-dev-1 i_am_idle                             -> hold paused agent
        use T-2
        be-dev-1 i_will_work_on                        -> lease be-dev-1
        use T-1
        be-dev-1 resume                                -> refused invalid_state, says already work on T-2, hold paused agent
    ";
    submitting_needs_everything_at_once: "
        given leaf in ready
        be-dev-1 i_will_work_on                        -> working
        be-dev-1 open_pr                               -> refused tracing_gap, missing commit, try commit
        be-dev-1 i_am_done criteria=none               -> refused tracing_gap, missing commit pr_open acceptance_criterion:C1 acceptance_criterion:C2, try commit, working
        be-dev-1 commit                                -> event commit.recorded
        be-dev-1 i_am_done                             -> refused tracing_gap, missing pr_open, try open_pr, working
        be-dev-1 open_pr                               -> event pr.opened
        be-dev-1 open_pr                               -> no event
        tree dirty src/greet.rs
        be-dev-1 i_am_done                             -> refused tracing_gap, missing uncommitted_changes, try commit, says src/greet.rs, working
        be-dev-1 sync_branch                           -> refused tracing_gap, missing uncommitted_changes, try commit
        tree gone
        be-dev-1 i_am_done                             -> refused invalid_state, try unclaim, working
        tree unknown
        be-dev-1 i_am_done                             -> refused unavailable, try none, working
        tree clean
        be-dev-1 i_am_done criteria=C1                 -> refused tracing_gap, missing acceptance_criterion:C2, try i_am_done, working
        be-dev-1 i_am_done criteria=[{\"id\":\"C9\",\"evidence\":\"test:a\"}] -> refused incomplete_input
        be-dev-1 i_am_done                             -> qa
    ";
    every_criterion_is_named_by_its_number: "
        given leaf in working
        be-dev-1 i_am_done resolved_findings=[{\"finding_id\":\"F7\"}] -> qa
    ";
    a_commit_needs_a_subject: "
        given leaf in working
        be-dev-1 commit message=wip                    -> refused incomplete_input, missing message, try commit, no event
        be-dev-1 progress message=tbd                  -> refused incomplete_input, missing message, try progress
        be-dev-1 progress plan_step=9                  -> refused incomplete_input, missing plan_step, try progress
        be-dev-1 progress plan_step=1                  -> event progress.reported
        be-dev-1 note text=                            -> refused incomplete_input
        be-dev-1 note text=x                           -> refused incomplete_input, missing text, try note
        fe-dev-1 note                                  -> refused not_authorized
        auditor note                                   -> event note.recorded
        be-dev-1 commit message=update_the_greeter     -> event commit.recorded
        be-dev-1 commit message=join_several_names     -> event commit.recorded
    ";
    a_commit_may_come_to_nothing: "
        given leaf in working
        git commit nothing
        be-dev-1 commit                                -> refused invalid_state, missing nothing_to_commit, no event
        git commit refused
        be-dev-1 commit                                -> refused invalid_state, try commit, says a key, no event
        git commit broken
        be-dev-1 commit                                -> refused unavailable, try commit, no event, pending
        be-dev-1 commit                                -> event commit.recorded
    ";
    failed_checks_keep_the_work_and_mending_it_hands_it_over: "
        given leaf in working
        git gate failed
        be-dev-1 i_am_done                             -> refused tracing_gap, missing gate, try i_am_done, says joins_names, self_check, lease be-dev-1, closed be-dev-1 none, next be-dev-1
        git gate failed
        be-dev-1 i_am_done                             -> refused tracing_gap, missing gate, self_check
        be-dev-1 commit                                -> self_check, event commit.recorded
        be-dev-1 i_am_done                             -> qa, author be-dev-1
    ";
    content_is_checked_once: "
        given leaf in working
        hold back
        be-dev-1 i_am_done                             -> self_check, pending gate
        be-dev-1 commit                                -> refused unavailable, says gate is under way, try none
        after 700s
        expire                                         -> ready, event task.released, owner be-dev-1, lease none
        settle                                         -> ready, event gate.passed
        be-dev-1 i_will_work_on plan= steps=           -> working
        hold back
        be-dev-1 i_am_done                             -> qa, event task.submitted criterion.evidenced criterion.evidenced gate.passed task.handed_to_qa
    ";
    what_a_lost_run_left_under_way_ends_before_the_next_claim: "
        given leaf in working
        hold back
        be-dev-1 commit                                -> pending commit
        after 700s
        expire                                         -> ready, lease none, pending commit, next waits
        be-dev-1 i_will_work_on                        -> refused unavailable, says commit is under way, try none, ready
        settle                                         -> ready, event commit.recorded
        be-dev-1 i_will_work_on                        -> working
    ";
    a_project_without_checks_is_said_to_have_none: "
        given leaf in working
        git gate unconfigured
        be-dev-1 i_am_done                             -> qa, warns
    ";
    checks_that_cannot_run_wait_for_the_ceo: "
        given leaf in working
        git gate broken
        be-dev-1 i_am_done                             -> refused unavailable, self_check, hold blocked human, lease none, inbox 1, next ceo
        be-pm unblock                                  -> refused invalid_state, hold blocked human
        ceo unblock                                    -> hold none, inbox 0, self_check, next be-dev-1
        be-dev-1 i_will_work_on                        -> self_check, lease be-dev-1
        be-dev-1 i_am_done                             -> qa
    ";
    a_branch_that_cannot_be_cut_waits_for_the_ceo: "
        given leaf in ready
        git cut_branch broken
        be-dev-1 i_will_work_on                        -> refused unavailable, ready, hold blocked human, inbox 1, owner be-dev-1
        ceo unblock                                    -> hold none, ready
        be-dev-1 i_will_work_on plan= steps=           -> working
    ";
    the_same_call_joins_what_is_under_way: "
        given leaf in ready
        hold back
        be-dev-1 i_will_work_on                        -> ready, pending cut_branch
        be-dev-1 i_will_work_on                        -> no event, waits, pending cut_branch
        be-dev-1 unclaim                               -> refused unavailable, says busy
        settle                                         -> working
        hold back
        be-dev-1 commit                                -> pending commit
        be-dev-1 commit                                -> no event, waits, pending commit
        be-dev-1 i_am_done                             -> refused unavailable, says busy
        be-dev-1 i_am_blocked                          -> refused unavailable
        be-dev-1 sync_branch                           -> refused unavailable
        settle
        hold back
        be-dev-1 sync_branch                           -> pending sync
        be-dev-1 sync_branch                           -> no event, waits, pending sync
        be-dev-1 commit                                -> refused unavailable, says sync is under way, pending sync
        settle                                         -> event branch.synced
        be-dev-1 open_pr
        hold back
        be-dev-1 i_am_done                             -> self_check, pending gate
        be-dev-1 i_am_done                             -> no event, waits, pending gate
        settle                                         -> qa
        hold back
        be-qa claim_review                             -> pending pin
        be-qa claim_review                             -> no event, waits, pending pin
        be-qa pass                                     -> refused unavailable, qa
        be-qa fail                                     -> refused unavailable, qa
        be-qa unclaim                                  -> refused unavailable, lease be-qa
        be-qa i_am_blocked                             -> refused unavailable, hold none
        settle
    ";
    a_result_nobody_waits_for_changes_nothing: "
        given leaf in working
        be-dev-1 commit                                -> event commit.recorded
        again                                          -> no event, working
        hold back
        be-dev-1 commit                                -> pending commit
        ceo cancel                                     -> cancelled
        settle                                         -> refused invalid_state, cancelled, no event, pending
    ";
    conflicts_of_a_sync_are_resolved_by_hand: "
        given leaf in working
        git sync conflict
        be-dev-1 sync_branch                           -> working, no event, says resolve
        tree dirty src/greet.rs
        be-dev-1 commit                                -> event commit.recorded
        tree clean
        git sync broken
        be-dev-1 sync_branch                           -> refused unavailable, working
        be-dev-1 sync_branch                           -> event branch.synced
        be-dev-1 i_am_done                             -> qa
    ";
    giving_it_back_keeps_the_branch: "
        given leaf in working
        be-dev-2 unclaim                               -> refused not_authorized, working
        be-dev-1 unclaim                               -> ready, owner none, lease none, event task.released, closed be-dev-1 unclaim
        be-dev-1 i_am_idle                             -> accepted
        be-dev-2 i_will_work_on                        -> working, owner be-dev-2
        be-dev-2 i_am_done                             -> qa, author be-dev-2
    ";
    a_later_author_does_not_unmake_an_earlier_one: "
        given leaf in working
        be-dev-1 unclaim                               -> ready
        be-dev-2 i_will_work_on                        -> working
        be-dev-2 commit                                -> working
        be-dev-2 i_am_done                             -> qa
        be-qa claim_review                             -> lease be-qa
        be-qa fail                                     -> revision, owner be-dev-2, next be-dev-2 i_will_work_on
        be-dev-1 i_will_work_on                        -> refused not_authorized
    ";
}

#[test]
fn a_cap_that_is_only_recorded_is_said_to_be() {
    let mut world = super::world::World::new();
    let mut warning = |budget: serde_json::Value| {
        let mut args = super::scene::create_args();
        args.insert("budget_usd".into(), budget);
        let ceo = world.ceo();
        world.verb(ceo, roboco_domain::verb::Verb::CreateTask, None, args.into()).unwrap().decision.answer.warning
    };
    assert_eq!(warning(serde_json::Value::Null), None);
    assert!(warning(5.into()).is_some_and(|text| text.contains("does not enforce it yet")));
}
