//! Judging: reviews, documents, the PM's and the CEO's decisions.

super::scenarios! {
    a_review_is_taken_by_the_cell_and_given_back_with_one_verdict_per_criterion: "
        given leaf in qa
        be-qa pass                                     -> refused not_authorized, try claim_review, qa
        be-qa fail                                     -> refused not_authorized, try claim_review, qa
        be-qa unclaim                                  -> refused not_authorized, try give_me_work, no event
        fe-qa claim_review                             -> refused not_authorized, try give_me_work, lease none
        be-dev-1 claim_review                          -> refused not_authorized
        be-qa claim_review                             -> lease be-qa
        fe-qa claim_review                             -> refused not_authorized
        fe-qa pass                                     -> refused not_authorized
        be-qa pass criteria=C1                         -> refused incomplete_input, missing criteria_verified, try pass, says C2, qa
        be-qa pass notes=ok                            -> refused incomplete_input, missing notes, try pass, qa
        be-qa fail findings=[]                         -> refused incomplete_input, missing findings, try fail, qa
        be-qa pass                                     -> docs, lease none, owner none
    ";
    notes_and_verdicts_are_asked_for_together: "
        given leaf in reviewing
        be-qa pass criteria=C9 notes=tbd               -> refused incomplete_input, missing criteria_verified, qa
        be-qa pass criteria=C9                         -> refused incomplete_input, missing criteria_verified
    ";
    a_bounce_is_answered_finding_by_finding: "
        given leaf in reviewing
        be-qa fail findings=nit                        -> refused invalid_state, try pass, qa
        be-qa fail findings=major+minor                -> revision, round 1, owner be-dev-1, findings 2, finding F1 open, status needs_revision, next be-dev-1 i_will_work_on
        ends be-qa
        be-dev-1 commit                                -> refused not_authorized
        be-dev-1 i_will_work_on plan= steps=           -> working
        be-dev-1 commit                                -> working
        be-dev-1 i_am_done resolved_findings=[{\"finding_id\":\"F1\"}] -> refused tracing_gap, missing findings_resolved, try i_am_done, says F2, working
        be-dev-1 i_am_done                             -> qa, finding F1 addressed, finding F2 addressed
        ends be-dev-1
        be-qa claim_review
        be-qa pass                                     -> docs, finding F1 verified, finding F2 verified
    ";
    the_same_objection_on_the_same_commit_is_one: "
        given leaf in reviewing
        be-qa fail findings=[{\"severity\":\"major\",\"expected\":\"names-join\",\"actual\":\"lost-one\"},{\"severity\":\"minor\",\"expected\":\"names-join\",\"actual\":\"lost-one\"}] -> revision, findings 1
    ";
    light_findings_do_not_bounce_in_the_third_round: "
        given leaf in revision                         -> round 1
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done                             -> qa
        be-qa claim_review
        be-qa fail findings=minor                      -> revision, round 2
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done                             -> qa
        be-qa claim_review
        be-qa fail findings=minor                      -> refused invalid_state, says too light, try pass, qa
        be-qa fail findings=minor+major                -> revision, round 3
    ";
    the_fifth_failure_waits_for_the_ceo: "
        given leaf in revision
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done
        be-qa claim_review
        be-qa fail                                     -> round 2, hold none
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done
        be-qa claim_review
        be-qa fail                                     -> round 3, hold none
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done
        be-qa claim_review
        be-qa fail                                     -> round 4, hold none
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done
        be-qa claim_review
        be-qa fail                                     -> revision, round 5, hold blocked human, inbox 1, next ceo
        be-dev-1 i_will_work_on                        -> refused invalid_state
        ceo unblock                                    -> revision, hold none, owner be-dev-1, inbox 0
        be-dev-1 i_will_work_on                        -> working
    ";
    only_the_one_who_pinned_the_commits_judges_them: "
        given leaf in qa
        hold back
        be-qa claim_review                             -> pending pin
        ceo pause                                      -> lease none
        settle                                         -> qa, no event
        ceo resume                                     -> hold none
        be-qa pass                                     -> refused not_authorized, try claim_review
        be-qa claim_review                             -> lease be-qa
        be-qa pass                                     -> docs
    ";
    a_failed_pin_is_tried_again: "
        given leaf in qa
        git pin broken
        be-qa claim_review                             -> refused unavailable, qa, lease be-qa
        be-qa pass                                     -> refused tracing_gap, missing review_pinned, try claim_review, qa
        be-qa fail                                     -> refused tracing_gap, missing review_pinned, try claim_review, qa
        be-qa claim_review                             -> lease be-qa, event review.claimed review.pinned
        be-qa fail                                     -> revision
    ";
    a_new_round_needs_a_new_look: "
        given leaf in revision
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done                             -> qa
        git pin broken
        be-qa claim_review                             -> refused unavailable, lease be-qa
        be-qa pass                                     -> refused tracing_gap, missing review_pinned
    ";
    documents_are_written_or_declined_with_a_reason: "
        given leaf in docs
        be-doc i_documented                            -> refused not_authorized, try claim_doc_task, docs
        be-doc commit                                  -> refused not_authorized, try claim_doc_task
        be-doc progress                                -> refused not_authorized, try claim_doc_task
        be-doc unclaim                                 -> refused not_authorized, try give_me_work, no event
        fe-doc claim_doc_task                          -> refused not_authorized
        be-dev-1 claim_doc_task                        -> refused not_authorized
        be-doc claim_doc_task                          -> lease be-doc
        be-doc commit message=wip                      -> refused incomplete_input, missing message
        be-doc progress message=x                      -> refused incomplete_input, missing message
        be-doc progress                                -> event progress.reported
        be-doc i_documented files=[]                   -> refused incomplete_input, missing files, try i_documented, docs
        be-doc i_documented files=[] skip_reason=none  -> refused incomplete_input, missing files
        tree dirty docs/greet.md
        be-doc i_documented                            -> refused tracing_gap, missing uncommitted_changes, try commit
        tree clean
        hold back
        be-doc commit                                  -> pending commit
        be-doc i_documented                            -> refused unavailable, docs
        be-doc unclaim                                 -> refused unavailable
        be-doc i_am_blocked                            -> refused unavailable
        settle
        be-doc i_documented files=[] skip_reason=no_visible_change -> pm_review, owner be-pm
    ";
    a_documenter_who_changes_code_sends_it_back_to_qa: "
        given leaf in documenting
        git commit files src/greet.rs docs/greet.md
        be-doc commit                                  -> event commit.recorded
        be-doc i_documented                            -> qa, event review.reopened, says src/greet.rs, lease none, owner none, next be-qa claim_review
        ends be-doc
        be-qa claim_review                             -> lease be-qa
        be-qa pass                                     -> docs
        ends be-qa
        be-doc claim_doc_task                          -> lease be-doc
        be-doc i_documented                            -> pm_review
    ";
    a_review_that_ends_without_a_verdict_leaves_no_tree: "
        given leaf in reviewing
        hold back
        be-qa unclaim                                  -> lease none, to do release_review_tree
        settle
        hold back
        be-qa claim_review                             -> to do pin
        settle                                         -> lease be-qa
        again                                          -> to do
        hold back
        be-qa i_am_idle                                -> lease none, to do release_review_tree
        anew
        given leaf in reviewing
        after 601s
        expire                                         -> lease none, to do release_review_tree
        anew
        given leaf in reviewing
        ceo cancel                                     -> to do release_review_tree clean_up
        anew
        given leaf in qa
        be-qa claim_review                             -> to do pin
        after 601s
        expire                                         -> to do pin release_review_tree
        one                                            -> to do release_review_tree release_review_tree
        anew
        given leaf in documenting
        be-doc unclaim                                 -> lease none, to do
        anew
        given leaf in reviewing
        ceo pause                                      -> lease none, to do
        ceo resume
        retire be-qa
        be-qa-new claim_review                         -> lease be-qa-new, to do release_review_tree pin
    ";
    what_a_build_reads_is_no_document_whatever_its_ending: "
        given leaf in documenting
        git commit files requirements.txt docs/greet.md
        be-doc commit
        be-doc i_documented                            -> qa, event review.reopened, says requirements.txt
    ";
    more_than_the_record_holds_may_be_code: "
        given leaf in documenting
        git commit documents 199
        be-doc commit
        be-doc i_documented                            -> pm_review, event docs.recorded review.carried
        anew
        given leaf in documenting
        git commit documents 230
        be-doc commit
        be-doc i_documented                            -> qa, event review.reopened, says 200 files or more
    ";
    work_that_was_synced_last_is_not_taken_for_the_documenters: "
        given leaf in working
        be-dev-1 sync_branch                           -> event branch.synced
        be-dev-1 i_am_done                             -> qa
        be-qa claim_review
        be-qa pass                                     -> docs
        be-doc claim_doc_task
        be-doc i_documented                            -> pm_review, event docs.recorded
    ";
    a_documenter_comes_back_to_its_own_documents_in_the_next_round: "
        given leaf in pm_review
        be-pm request_changes                          -> revision, round 1
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done                             -> qa
        be-qa claim_review
        be-qa pass                                     -> docs
        be-doc claim_doc_task                          -> lease be-doc
        be-doc i_documented                            -> pm_review
    ";
    the_pm_of_the_cell_decides: "
        given leaf in pm_review
        fe-pm complete                                 -> refused not_authorized, try give_me_work, pm_review
        fe-pm request_changes                          -> refused not_authorized
        main-pm complete                               -> refused not_authorized
        be-pm complete notes=x                         -> refused incomplete_input, missing notes, try complete, pm_review
        be-pm request_changes findings=[]              -> refused incomplete_input, missing findings, try request_changes
        be-pm request_changes findings=nit             -> refused invalid_state, try complete, pm_review
        be-pm request_changes                          -> revision, round 1, owner be-dev-1, finding F1 open
    ";
    a_pm_sends_it_back_as_often_as_qa_may: "
        given leaf in pm_review
        be-pm request_changes findings=minor           -> round 1
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done
        be-qa claim_review
        be-qa fail findings=minor                      -> round 2
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done
        be-qa claim_review
        be-qa pass
        be-doc claim_doc_task
        be-doc i_documented                            -> pm_review
        be-pm request_changes findings=minor           -> refused invalid_state, try complete
    ";
    nobody_judges_or_documents_what_they_wrote: "
        given leaf in qa
        wrote be-qa
        be-qa claim_review                             -> refused not_authorized, says self-review, try give_me_work, lease none
        anew
        given leaf in reviewing
        wrote be-qa
        be-qa pass                                     -> refused not_authorized, says self-review, qa
        be-qa fail                                     -> refused not_authorized, says self-review, qa
        anew
        given leaf in docs
        wrote be-doc
        be-doc claim_doc_task                          -> refused not_authorized, says self-review, lease none
    ";
    a_decision_belongs_to_the_pm_who_has_it: "
        given leaf in pm_review
        owned by main-pm
        be-pm complete                                 -> refused not_authorized, says assigned to main-pm, pm_review
        be-pm request_changes                          -> refused not_authorized, pm_review
    ";
    a_successor_waits_until_the_old_right_has_ended: "
        given leaf in reviewing
        retire be-qa
        be-qa-new claim_review                         -> refused not_authorized, says held by be-qa, lease be-qa
        after 601s
        be-qa-new claim_review                         -> lease be-qa-new
        anew
        given leaf in documenting
        retire be-doc
        be-doc-new claim_doc_task                      -> refused not_authorized, says held by be-doc, lease be-doc
        after 601s
        be-doc-new claim_doc_task                      -> lease be-doc-new
        anew
        given leaf in working
        retire be-dev-1
        be-dev-2 i_will_work_on                        -> refused not_authorized, says held by be-dev-1, lease be-dev-1
        after 601s
        be-dev-2 i_will_work_on                        -> working, lease be-dev-2, owner be-dev-2
        anew
        given leaf in ready
        hold back
        be-dev-1 i_will_work_on                        -> ready, lease be-dev-1
        retire be-dev-1
        be-dev-2 i_will_work_on                        -> refused not_authorized, says held by be-dev-1
    ";
    what_somebody_left_behind_stays_in_the_cell: "
        given leaf in working
        ceo pause                                      -> lease none
        ceo resume                                     -> working, lease none
        retire be-dev-1
        fe-dev-1 i_will_work_on                        -> refused not_authorized, says cell backend, lease none
        fe-dev-1 unclaim                               -> refused not_authorized, says cell backend, working
        be-dev-2 i_will_work_on                        -> working, lease be-dev-2
        anew
        given leaf in working held paused agent
        retire be-dev-1
        fe-dev-1 resume                                -> refused not_authorized, says cell backend, hold paused agent
        anew
        given leaf in pm_review
        retire be-pm
        fe-pm complete                                 -> refused not_authorized, says cell backend, pm_review
        fe-pm request_changes                          -> refused not_authorized, says cell backend, pm_review
    ";
    a_retired_pm_is_succeeded: "
        given leaf in pm_review
        retire be-pm                                   -> next be-pm-new complete
        be-pm-new complete                             -> ceo
    ";
    a_retired_author_is_succeeded: "
        given leaf in revision
        retire be-dev-1                                -> next be-dev-1-new+be-dev-2 i_will_work_on
        be-dev-2 i_will_work_on                        -> working, owner be-dev-2
        retire be-dev-1 be-dev-2
        after 700s
        expire                                         -> ready
        be-dev-1-new i_will_work_on                    -> working, owner be-dev-1-new
    ";
    the_ceo_decides_about_what_is_there_now: "
        given leaf in ceo
        be-pm approve                                  -> refused not_authorized
        be-pm cancel                                   -> refused invalid_state, ceo
        main-pm cancel                                 -> refused invalid_state, ceo
        ceo approve head=0000000000000000000000000000000000000001 -> refused stale_evidence, ceo, no event
        ceo reject reason=no                           -> refused incomplete_input, missing reason, try reject, ceo
        ceo reject                                     -> revision, round 1, owner be-dev-1, inbox 0, finding F1 open, event ceo.rejected inbox.decided
    ";
    while_it_is_merged_nothing_else_happens: "
        given leaf in ceo
        hold back
        ceo approve                                    -> pending land
        ceo approve                                    -> no event, waits, pending land
        ceo reject                                     -> refused invalid_state, says being merged, ceo
        ceo cancel                                     -> refused invalid_state, says being merged, ceo
        ceo pause                                      -> refused invalid_state, says being merged, hold none
        settle                                         -> done
        anew
        given child in pm_review
        hold back
        be-pm complete                                 -> pending land
        be-pm complete                                 -> no event, waits, pending land
        be-pm request_changes                          -> refused invalid_state, says being merged, pm_review
        be-pm cancel                                   -> refused invalid_state, says being merged, pm_review
        main-pm cancel                                 -> refused invalid_state, says being merged
        be-pm escalate_up                              -> refused unavailable, hold none
        main-pm escalate_to_ceo                        -> refused unavailable, hold none
        ceo cancel                                     -> refused invalid_state
        settle                                         -> done
    ";
    a_merge_that_conflicts_stays_with_the_ceo: "
        given leaf in ceo
        git land conflict
        ceo approve                                    -> refused invalid_state, try reject, says src/greet.rs, ceo, inbox 1, round 0, next ceo
        git land red
        ceo approve                                    -> refused invalid_state, try reject, ceo
        ceo reject                                     -> revision
    ";
    a_merge_that_cannot_be_made_stays_with_the_ceo: "
        given leaf in ceo
        git land dirty
        ceo approve                                    -> refused unavailable, try none, says uncommitted, ceo, inbox 1
        git land protected
        ceo approve                                    -> refused unavailable, ceo, inbox 1
        git land unavailable
        ceo approve                                    -> refused unavailable, ceo, inbox 1
        git land broken
        ceo approve                                    -> refused unavailable, ceo, inbox 1, pending
        ceo approve                                    -> done
    ";
    below_the_ceo_a_conflict_goes_back_once_and_then_waits: "
        given child in pm_review
        git land conflict
        be-pm complete                                 -> refused invalid_state, try none, revision, round 1, owner be-dev-1, hold none, finding F1 open
        ends be-pm stopped
        be-dev-1 i_will_work_on
        be-dev-1 commit
        be-dev-1 i_am_done
        be-qa claim_review
        be-qa pass                                     -> finding F1 verified
        be-doc claim_doc_task
        be-doc i_documented                            -> pm_review
        git land red
        be-pm complete                                 -> refused invalid_state, revision, round 2, hold blocked human, inbox 1
    ";
    below_the_ceo_what_only_a_person_can_mend_waits_for_one: "
        given child in pm_review
        git land protected
        be-pm complete                                 -> refused unavailable, pm_review, hold blocked human, inbox 1, next ceo
        ceo unblock                                    -> pm_review, hold none, inbox 0, next be-pm complete
        be-pm complete                                 -> done
    ";
    an_ended_task_stays_ended: "
        given leaf in done
        ceo cancel                                     -> refused invalid_state, done
        ceo approve                                    -> refused invalid_state
        be-dev-1 i_will_work_on                        -> refused not_authorized
        be-pm cancel                                   -> refused invalid_state
        anew
        given leaf in cancelled
        ceo resume                                     -> refused invalid_state
        be-pm escalate_up                              -> refused invalid_state, hold none
        be-dev-1 i_will_work_on                        -> refused invalid_state, cancelled
    ";
}

#[test]
fn a_hundred_commits_of_a_documenter_may_hide_code_among_those_that_were_dropped() {
    let commits = "be-doc commit\n".repeat(99);
    super::script::check(&format!("given leaf in documenting\n{commits}be-doc i_documented -> pm_review"));
    super::script::check(&format!("given leaf in documenting\n{commits}be-doc commit\nbe-doc i_documented -> qa, says 100 commits"));
}
