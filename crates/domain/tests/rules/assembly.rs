//! Work made of parts: planning it, giving the parts out, covering every criterion, assembling, and the review of the whole.

super::scenarios! {
    a_root_is_planned_split_assembled_and_approved: "
        given root in ready                            -> ready, owner main-pm, next main-pm i_will_plan
        main-pm i_will_plan                            -> working, lease none, owner main-pm, event task.claimed task.plan_set branch.cut task.started
        main-pm delegate                               -> working, parts open, next waits, event task.delegated task.created
        use T-2                                        -> ready, owner be-pm, next be-pm i_will_plan
        be-pm i_will_plan                              -> working, next be-pm i_will_plan
        be-pm delegate                                 -> parts open, next waits
        use T-3                                        -> ready, owner be-dev-1, next be-dev-1 i_will_work_on
        done T-3                                       -> done
        use T-2                                        -> working, parts completed, next company
        submit                                         -> gate, event pr.opened task.handed_to_gate, owner be-pm, next be-pr-reviewer+cell-pr-reviewer-2 claim_gate_review
        be-pr-reviewer claim_gate_review               -> gate, lease be-pr-reviewer, status awaiting_pr_review
        be-pr-reviewer pr_pass                         -> pm_review, lease none, owner be-pm, next be-pm complete
        be-pm complete                                 -> done, event task.accepted merge.landed task.completed part.ended
        use T-1                                        -> working, parts completed, next company
        submit                                         -> gate, next pr-reviewer-1 claim_gate_review
        pr-reviewer-1 claim_gate_review
        pr-reviewer-1 pr_pass                          -> pm_review, owner main-pm
        main-pm complete                               -> ceo, inbox 1, next ceo
        ceo approve                                    -> done, inbox 0, event ceo.approved merge.landed task.completed inbox.decided
    ";
    only_the_owner_plans_in_order: "
        given root in ready
        main-pm i_will_plan plan= steps=               -> refused incomplete_input
        be-pm i_will_plan                              -> refused not_authorized
        given cell in ready after T-1                  -> next waits
        be-pm i_will_plan                              -> refused invalid_state
        fe-pm i_will_plan                              -> refused not_authorized
    ";
    a_plan_is_the_owners_and_says_something: "
        given cell in ready
        be-pm i_will_plan plan= steps=                 -> refused incomplete_input
        owned by main-pm
        be-pm i_will_plan                              -> refused not_authorized
        anew
        given root in ready
        owned by be-pm
        main-pm i_will_plan                            -> refused not_authorized
    ";
    the_work_of_a_pm_who_left_is_its_successors_and_no_other_cells: "
        given cell in ready
        retire be-pm
        fe-pm i_will_plan                              -> refused not_authorized
        be-pm-new i_will_plan                          -> working, owner be-pm-new
        anew
        given cell in assembled
        retire be-pm                                   -> next company
        fe-pm i_will_plan                              -> refused not_authorized
        fe-pm delegate                                 -> refused not_authorized
        fe-pm declare_coverage                         -> refused not_authorized
        fe-pm submit_up                                -> refused not_authorized
        be-pm-new submit_up                            -> gate
    ";
    the_main_pm_says_why: "
        given root in working held blocked main_pm
        main-pm unblock reason=x                       -> refused incomplete_input
        main-pm cancel reason=x                        -> refused incomplete_input
        main-pm note text=x                            -> refused incomplete_input
        main-pm unblock                                -> working, hold none
    ";
    a_root_behind_another_waits: "
        given leaf in ready
        given root in ready after T-1                  -> next waits
        main-pm i_will_plan                            -> refused invalid_state
    ";
    planning_again_changes_nothing_but_the_plan: "
        given cell in working
        be-pm i_will_plan                              -> working, event task.plan_set
        fe-pm i_will_plan                              -> refused not_authorized
        owned by main-pm
        be-pm i_will_plan                              -> refused not_authorized
        be-pm delegate                                 -> refused not_authorized
        be-pm declare_coverage                         -> refused not_authorized
    ";
    a_root_belongs_to_its_owner: "
        given root in assembled
        owned by be-pm
        main-pm i_will_plan                            -> refused not_authorized
        main-pm delegate                               -> refused not_authorized
        main-pm declare_coverage                       -> refused not_authorized
        main-pm submit_root                            -> refused not_authorized
    ";
    a_cell_belongs_to_its_owner: "
        given cell in assembled
        owned by main-pm
        be-pm submit_up                                -> refused not_authorized
    ";
    what_a_part_must_say: "
        given cell in working
        be-pm delegate title=                          -> refused incomplete_input, no event
        be-pm delegate description=tbd                 -> refused incomplete_input
        be-pm delegate criteria=[]                     -> refused incomplete_input
        be-pm delegate type=planning                   -> refused incomplete_input
        be-pm delegate type=documentation              -> refused incomplete_input
        be-pm delegate touches=                        -> refused incomplete_input
        be-pm delegate covers=                         -> refused incomplete_input
        be-pm delegate covers=[\"C9\"]                 -> refused incomplete_input
        be-pm delegate assigned_to=fe-dev-1            -> refused incomplete_input
        be-pm delegate assigned_to=be-pm               -> refused incomplete_input
        be-pm delegate complexity=                     -> refused incomplete_input
        be-pm delegate covers=[\"C1\"]                 -> parts open
    ";
    a_root_is_given_to_cells_and_only_to_be_planned: "
        given root in working
        main-pm delegate assigned_to=be-dev-1          -> refused incomplete_input
        main-pm delegate type=code                     -> refused incomplete_input
        main-pm delegate covers=                       -> refused incomplete_input
        main-pm delegate                               -> parts open
        main-pm delegate                               -> refused invalid_state, try i_am_idle
        main-pm delegate assigned_to=fe-pm             -> parts open open
    ";
    nobody_gets_the_same_part_twice: "
        given cell in working
        be-pm delegate                                 -> parts open
        be-pm delegate title=Join_the_names,_part_1    -> refused invalid_state, try i_am_idle
        be-pm delegate title=Something_else_to_do      -> parts open open
        use T-4                                        -> next waits
        done T-3
        use T-4                                        -> next be-dev-1 i_will_work_on
    ";
    parts_that_may_collide_go_one_after_the_other: "
        given cell in working
        be-pm delegate touches=[\"src/a/**\"]
        be-pm delegate assigned_to=be-dev-2 touches=[\"src/b/**\"]
        be-pm delegate assigned_to=be-dev-2 title=Both_of_them_at_once touches=[\"src/a/x.rs\"]
        use T-4                                        -> next be-dev-2 i_will_work_on
        use T-5                                        -> next waits
    ";
    every_criterion_needs_somebody: "
        given cell in working
        be-pm i_am_idle                                -> refused invalid_state, try delegate, says C1
        be-pm submit_up                                -> refused tracing_gap, missing everything_covered, try delegate
        be-pm delegate covers=[\"C1\"]
        be-pm submit_up                                -> refused tracing_gap, missing parts_ended, try i_am_idle
        be-pm i_am_idle                                -> accepted, working
        done T-3
        use T-2                                        -> next be-pm i_will_plan
        be-pm submit_up                                -> refused tracing_gap, missing everything_covered
        be-pm declare_coverage criteria=[]             -> refused incomplete_input
        be-pm declare_coverage reason=                 -> refused incomplete_input
        be-pm declare_coverage criteria=[\"C2\"] part=T-9 -> refused incomplete_input
        be-pm declare_coverage criteria=[\"C2\"]       -> next company
        be-pm submit_up notes=                         -> refused incomplete_input
        be-pm submit_up                                -> gate
    ";
    a_part_may_cover_more_than_was_said_first: "
        given cell in working
        be-pm delegate covers=[\"C1\"]
        be-pm declare_coverage criteria=[\"C2\"] part=T-3 -> says i_am_idle
        done T-3
        use T-2                                        -> next company
    ";
    the_main_pm_answers_for_what_no_cell_covers: "
        given root in working
        main-pm i_am_idle                              -> refused invalid_state, try delegate
        main-pm delegate covers=[\"C1\"]
        main-pm submit_root                            -> refused tracing_gap, missing parts_ended
        done T-2
        use T-1
        main-pm submit_root                            -> refused tracing_gap, missing everything_covered
        main-pm declare_coverage criteria=[]           -> refused incomplete_input
        main-pm declare_coverage reason=               -> refused incomplete_input
        main-pm declare_coverage criteria=[\"C2\"]     -> next company
        main-pm submit_root notes=                     -> refused incomplete_input
        main-pm submit_root                            -> gate
    ";
    a_cell_the_human_named_takes_part: "
        given root in working
        main-pm declare_coverage criteria=[\"C1\",\"C2\"] -> next main-pm i_will_plan
        main-pm submit_root                            -> refused tracing_gap, missing everything_covered, says backend
        main-pm delegate
        done T-2
        use T-1                                        -> next company
    ";
    a_part_that_was_given_up_covers_nothing: "
        given cell in working
        be-pm delegate
        use T-3
        be-pm cancel                                   -> cancelled, event task.cancelled part.ended
        use T-2                                        -> working, parts cancelled, next be-pm i_will_plan
        submit                                         -> no event
        be-pm declare_coverage criteria=[\"C1\",\"C2\"] -> next company
        submit                                         -> pm_review, event task.handed_to_pm
        be-pm complete                                 -> done, event task.accepted task.completed part.ended
    ";
    giving_up_the_whole_gives_up_every_part: "
        given cell in working
        be-pm delegate
        use T-3
        be-dev-1 i_will_work_on
        use T-1
        ceo cancel                                     -> cancelled, event task.cancelled part.ended task.cancelled task.cancelled part.ended
        use T-2                                        -> cancelled, inbox 0
        use T-3                                        -> cancelled, inbox 0
    ";
    failed_assembled_work_returns_to_its_pm: "
        given cell in reviewing
        be-pr-reviewer pr_fail findings=               -> refused incomplete_input
        be-pr-reviewer pr_fail findings=nit            -> refused invalid_state, try pr_pass
        be-pr-reviewer pr_fail                         -> revision, owner be-pm, round 1, finding F1 open, lease none, next be-pm i_will_plan
        be-pm i_will_plan                              -> working, next be-pm i_will_plan
        be-pm i_am_idle                                -> refused invalid_state
        be-pm submit_up resolved_findings=[]           -> refused tracing_gap, missing findings_resolved, try submit_up
        be-pm delegate title=Mend_what_the_reviewer_saw -> parts completed open
        done T-4
        use T-2                                        -> next be-pm i_will_plan
        be-pm submit_up                                -> gate, finding F1 addressed
        be-pr-reviewer claim_gate_review
        be-pr-reviewer pr_pass                         -> pm_review, finding F1 verified
    ";
    a_failed_root_returns_to_the_main_pm: "
        given root in reviewing
        pr-reviewer-1 pr_fail                          -> revision, owner main-pm, next main-pm i_will_plan
        main-pm i_will_plan                            -> working
        main-pm submit_root resolved_findings=[]       -> refused tracing_gap, missing findings_resolved, try submit_root
    ";
    the_same_commits_are_looked_at_once_more_and_no_more: "
        given cell in revision
        be-pm i_will_plan
        be-pm submit_up                                -> gate
        be-pr-reviewer claim_gate_review
        be-pr-reviewer pr_fail                         -> revision, round 2
        be-pm i_will_plan
        be-pm submit_up                                -> refused invalid_state, try delegate
        be-pm delegate title=Mend_what_the_reviewer_saw
        done T-4
        use T-2
        be-pm submit_up                                -> gate
    ";
    a_root_is_looked_at_unchanged_only_once: "
        given root in revision
        main-pm i_will_plan
        main-pm submit_root                            -> gate
        pr-reviewer-1 claim_gate_review
        pr-reviewer-1 pr_fail                          -> revision
        main-pm i_will_plan
        main-pm submit_root                            -> refused invalid_state, try delegate
    ";
    everybody_reviews_what_is_theirs: "
        given cell in gate
        pr-reviewer-1 claim_gate_review                -> refused not_authorized
        fe-pr-reviewer claim_gate_review               -> refused not_authorized
        cell-pr-reviewer-2 claim_gate_review           -> lease cell-pr-reviewer-2
        be-pr-reviewer claim_gate_review               -> refused not_authorized
        be-pr-reviewer pr_pass                         -> refused not_authorized
        be-pr-reviewer pr_fail                         -> refused not_authorized
        be-pr-reviewer unclaim                         -> refused not_authorized
        cell-pr-reviewer-2 unclaim                     -> gate, lease none
        be-pr-reviewer pr_pass                         -> refused not_authorized, try claim_gate_review
        anew
        given root in gate
        be-pr-reviewer claim_gate_review               -> refused not_authorized
        cell-pr-reviewer-2 claim_gate_review           -> refused not_authorized
        pr-reviewer-1 claim_gate_review                -> lease pr-reviewer-1
    ";
    nobody_reviews_what_they_wrote_into_it: "
        given cell in gate
        wrote be-pr-reviewer
        be-pr-reviewer claim_gate_review               -> refused not_authorized, says self-review
        anew
        given cell in reviewing
        wrote be-pr-reviewer
        be-pr-reviewer pr_pass                         -> refused not_authorized, says self-review
        be-pr-reviewer pr_fail                         -> refused not_authorized, says self-review
    ";
    a_verdict_is_about_pinned_commits_and_says_something: "
        given cell in gate
        hold back
        be-pr-reviewer claim_gate_review               -> pending pin
        be-pr-reviewer pr_pass                         -> refused unavailable
        be-pr-reviewer pr_fail                         -> refused unavailable
        be-pr-reviewer unclaim                         -> refused unavailable
        settle
        be-pr-reviewer pr_pass notes=tbd               -> refused incomplete_input
        be-pr-reviewer pr_fail findings=[]             -> refused incomplete_input
        be-pr-reviewer pr_pass                         -> pm_review
        anew
        given cell in gate
        git pin broken
        be-pr-reviewer claim_gate_review               -> refused unavailable
        be-pr-reviewer pr_pass                         -> refused tracing_gap, missing review_pinned, try claim_gate_review
        be-pr-reviewer pr_fail                         -> refused tracing_gap, missing review_pinned, try claim_gate_review
    ";
    the_pm_may_send_its_own_work_back: "
        given cell in pm_review
        be-pm request_changes                          -> revision, owner be-pm, finding F1 open
        anew
        given root in pm_review
        main-pm complete notes=tbd                     -> refused incomplete_input
        main-pm request_changes findings=[]            -> refused incomplete_input
        main-pm request_changes findings=nit           -> refused invalid_state, try complete
        main-pm request_changes                        -> revision, owner main-pm
        anew
        given root in pm_review
        owned by be-pm
        main-pm complete                               -> refused not_authorized
        main-pm request_changes                        -> refused not_authorized
    ";
    what_the_ceo_sends_back_is_the_main_pms: "
        given root in ceo
        ceo reject                                     -> revision, owner main-pm, finding F1 open, next main-pm i_will_plan
    ";
    a_cell_that_does_not_merge_is_its_pms: "
        given cell in pm_review
        git land conflict
        be-pm complete                                 -> refused invalid_state, revision, owner be-pm, finding F1 open
    ";
    while_it_is_merged_nothing_else_happens: "
        given cell in pm_review
        hold back
        be-pm complete                                 -> pending land
        be-pm request_changes                          -> refused invalid_state
    ";
    a_task_may_change_hands: "
        given cell in working
        be-pm delegate
        use T-3
        be-dev-1 i_will_work_on                        -> working
        be-dev-1 commit
        fe-pm reassign to=fe-dev-1                     -> refused not_authorized
        be-pm reassign to=fe-dev-1                     -> refused incomplete_input
        be-pm reassign to=be-dev-1                     -> refused incomplete_input
        be-pm reassign reason=                         -> refused incomplete_input
        be-pm reassign                                 -> working, owner be-dev-2, lease none, event task.reassigned, next be-dev-2 i_will_work_on
        be-dev-1 commit                                -> refused not_authorized
        be-dev-2 i_will_work_on                        -> lease be-dev-2
        hold back
        be-dev-2 commit                                -> pending commit
        be-pm reassign to=be-dev-1                     -> refused unavailable
    ";
    a_conflict_further_up_is_resolved_in_a_leaf: "
        given cell in working
        be-pm delegate
        use T-3
        be-dev-1 i_will_work_on
        be-dev-1 sync_branch from=T-9                  -> refused incomplete_input
        be-dev-1 sync_branch from=T-2                  -> event branch.synced
        be-dev-1 sync_branch from=T-1                  -> event branch.synced
    ";
    planning_joins_the_branch_that_is_being_cut: "
        given cell in ready
        hold back
        be-pm i_will_plan                              -> ready, lease be-pm, status claimed, pending cut_branch
        be-pm i_will_plan                              -> waits, no event
        be-pm i_am_idle                                -> accepted
        settle                                         -> working, lease none
    ";
}
