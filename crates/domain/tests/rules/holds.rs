//! Holds: who raises them, who lifts them, and that lifting one restores what was under it.

super::scenarios! {
    a_block_goes_to_the_pm_of_the_cell_and_back: "
        given leaf in working
        be-dev-1 i_am_blocked reason=x                 -> refused incomplete_input, missing reason, try i_am_blocked, hold none
        be-dev-2 i_am_blocked                          -> refused not_authorized, hold none
        be-dev-1 i_am_blocked                          -> working, hold blocked cell_pm, lease none, owner be-dev-1, status blocked, next be-pm unblock, event note.recorded task.held, closed be-dev-1 i_am_blocked
        be-dev-1 commit                                -> refused invalid_state
        be-dev-1 unclaim                               -> refused invalid_state
        fe-pm unblock                                  -> refused not_authorized, hold blocked cell_pm
        be-pm unblock reason=x                         -> refused incomplete_input, missing reason, try unblock, hold blocked cell_pm
        be-pm unblock                                  -> working, hold none, owner be-dev-1, status in_progress, next be-dev-1 i_will_work_on
        be-dev-1 i_will_work_on                        -> working, lease be-dev-1
    ";
    everybody_at_work_can_say_it_is_blocked: "
        given leaf in self_check
        be-dev-1 i_am_blocked                          -> self_check, hold blocked cell_pm
        be-pm unblock                                  -> self_check, hold none
        anew
        given leaf in qa
        be-qa i_am_blocked                             -> refused not_authorized, try claim_review, hold none
        be-qa claim_review
        be-qa i_am_blocked reason=tbd                  -> refused incomplete_input, missing reason
        be-qa i_am_blocked                             -> qa, hold blocked cell_pm, lease none
        anew
        given leaf in docs
        be-doc i_am_blocked                            -> refused not_authorized, try claim_doc_task
        be-doc claim_doc_task
        be-doc i_am_blocked reason=tbd                 -> refused incomplete_input, missing reason
        be-doc i_am_blocked                            -> docs, hold blocked cell_pm, lease none
    ";
    a_blocker_outside_the_company_goes_straight_to_the_ceo: "
        given leaf in working
        be-dev-1 i_am_blocked blocker_type=\"external\" -> hold blocked human, inbox 1, next ceo
        be-pm unblock                                  -> refused invalid_state, try give_me_work, hold blocked human
        ceo unblock                                    -> hold none, inbox 0
    ";
    a_provider_that_refuses_is_no_fault_of_the_task: "
        given leaf in working
        be-dev-1 i_am_blocked blocker_type=\"provider_limit\" -> working, hold none, lease be-dev-1, event note.recorded
    ";
    escalation_climbs_and_never_skips_work: "
        given leaf in working held blocked cell_pm
        fe-pm escalate_up                              -> refused not_authorized
        be-pm escalate_up reason=x                     -> refused incomplete_input, missing reason, try escalate_up
        be-pm escalate_up                              -> working, hold blocked main_pm, next main-pm unblock
        be-pm escalate_up                              -> refused invalid_state, hold blocked main_pm
        be-pm unblock                                  -> refused invalid_state, try give_me_work, hold blocked main_pm
        main-pm escalate_to_ceo reason=x               -> refused incomplete_input, missing reason, try escalate_to_ceo
        main-pm escalate_to_ceo                        -> working, hold blocked human, inbox 1, next ceo
        main-pm escalate_to_ceo                        -> refused invalid_state
        main-pm unblock                                -> refused invalid_state, hold blocked human
        ceo unblock reason=x                           -> refused incomplete_input, missing reason, try unblock
        ceo unblock                                    -> working, hold none, owner be-dev-1, inbox 0, round 0
    ";
    the_main_pm_lifts_what_came_up: "
        given leaf in qa held blocked main_pm
        main-pm unblock                                -> qa, hold none
    ";
    an_escalation_of_free_work_holds_it_where_it_is: "
        given leaf in pm_review
        be-pm escalate_up                              -> pm_review, hold blocked main_pm
        main-pm unblock                                -> pm_review, hold none, owner be-pm
        main-pm escalate_to_ceo                        -> pm_review, hold blocked human
        ceo unblock                                    -> pm_review, next be-pm complete
    ";
    the_ceo_pauses_and_only_the_ceo_resumes: "
        given leaf in working
        be-pm pause                                    -> refused not_authorized
        ceo pause                                      -> working, hold paused human, lease none, owner be-dev-1, status paused, next ceo
        be-dev-1 resume                                -> refused invalid_state, says only the CEO, hold paused human
        be-pm resume                                   -> refused invalid_state, hold paused human
        main-pm resume                                 -> refused invalid_state, hold paused human
        ceo pause                                      -> refused invalid_state
        ceo resume                                     -> working, hold none, owner be-dev-1, next be-dev-1
        anew
        given leaf in qa held paused human
        be-qa resume                                   -> refused invalid_state, hold paused human
        ceo resume                                     -> qa, hold none
        anew
        given leaf in docs held paused human
        be-doc resume                                  -> refused invalid_state, hold paused human
    ";
    work_in_hand_is_set_aside_by_going_idle: "
        given leaf in working
        be-dev-1 i_am_idle                             -> working, hold paused agent, lease none, owner be-dev-1, next be-dev-1 resume
        be-dev-2 resume                                -> refused not_authorized, hold paused agent
        be-dev-1 resume                                -> working, hold none, lease be-dev-1
        be-dev-1 i_am_idle                             -> hold paused agent
        fe-pm resume                                   -> refused not_authorized, hold paused agent
        be-pm resume                                   -> working, hold none, next be-dev-1 i_will_work_on
        be-dev-1 i_will_work_on
        be-dev-1 i_am_idle                             -> hold paused agent
        main-pm resume                                 -> working, hold none
    ";
    reviewers_resume_in_their_own_stage_and_cell: "
        given leaf in qa held paused agent             -> next be-qa resume
        fe-qa resume                                   -> refused not_authorized, hold paused agent
        be-qa resume                                   -> qa, hold none, lease none
        anew
        given leaf in docs held paused agent           -> next be-doc resume
        fe-doc resume                                  -> refused not_authorized, hold paused agent
        be-doc resume                                  -> docs, hold none
    ";
    a_reviewer_that_goes_idle_leaves_the_review_to_the_next: "
        given leaf in reviewing
        be-qa i_am_idle                                -> qa, hold none, lease none, event task.released
        anew
        given leaf in reviewing
        be-qa unclaim                                  -> qa, lease none, owner none
        anew
        given leaf in documenting
        be-doc unclaim                                 -> docs, lease none
        anew
        given leaf in documenting
        be-doc i_am_idle                               -> docs, lease none
    ";
    idling_is_refused_while_the_offered_work_is_untouched: "
        given leaf in qa
        starts be-qa claim_review
        be-qa i_am_idle                                -> refused invalid_state, try claim_review, says T-1, qa
        be-qa claim_review
        be-qa fail                                     -> revision
        be-qa i_am_idle                                -> accepted
        anew
        given leaf in pm_review
        starts be-pm complete
        be-pm i_am_idle                                -> refused invalid_state, try complete
        be-pm complete                                 -> ceo
        be-pm i_am_idle                                -> accepted
    ";
    idling_is_accepted_when_the_offered_work_is_somebody_elses: "
        given leaf in ready
        starts be-dev-1 i_will_work_on
        be-dev-1 i_am_idle                             -> refused invalid_state, try i_will_work_on
        be-dev-2 i_will_work_on                        -> working
        be-dev-1 i_am_idle                             -> accepted, working, lease be-dev-2
    ";
    idling_while_the_checks_run_leaves_them_running: "
        given leaf in working
        hold back
        be-dev-1 i_am_done                             -> self_check, pending gate
        be-dev-1 i_am_idle                             -> accepted, self_check, hold none, lease be-dev-1
        settle                                         -> qa, closed be-dev-1 i_am_done
    ";
    what_was_begun_is_cleaned_up_wherever_it_is_given_up: "
        given leaf in ready
        hold back
        ceo cancel                                     -> cancelled, to do
        anew
        given leaf in ready
        be-dev-1 i_will_work_on                        -> ready, to do cut_branch
        ceo cancel                                     -> cancelled, to do cut_branch clean_up
        settle                                         -> refused invalid_state, cancelled, to do
        anew
        given leaf in ready
        git cut_branch broken
        be-dev-1 i_will_work_on                        -> refused unavailable, hold blocked human
        hold back
        ceo cancel                                     -> cancelled, to do clean_up
    ";
    a_branch_that_is_cut_for_an_ended_task_is_taken_away_again: "
        given leaf in ready
        hold back
        be-dev-1 i_will_work_on
        ceo cancel                                     -> to do cut_branch clean_up
        one                                            -> cancelled, to do clean_up clean_up
    ";
    what_waits_for_the_ceo_is_not_given_up_by_a_pm: "
        given leaf in working held blocked human
        be-pm cancel                                   -> refused invalid_state, says the CEO, hold blocked human
        main-pm cancel                                 -> refused invalid_state, hold blocked human
        anew
        given leaf in working held blocked main_pm
        be-pm cancel                                   -> refused invalid_state, says the main PM, working
        fe-pm cancel                                   -> refused not_authorized
        main-pm cancel reason=x                        -> refused incomplete_input, missing reason
        main-pm cancel                                 -> cancelled
        anew
        given leaf in working held paused human
        be-pm cancel                                   -> refused invalid_state, says only by the CEO, hold paused human
        main-pm cancel                                 -> refused invalid_state
        ceo cancel                                     -> cancelled
        anew
        given leaf in working held paused agent
        fe-pm cancel                                   -> refused not_authorized, says cell backend
        be-pm cancel reason=x                          -> refused incomplete_input, missing reason
        be-pm cancel                                   -> cancelled
        anew
        given leaf in working held budget
        be-pm cancel                                   -> refused invalid_state, hold budget
    ";
    a_pm_releases_parts_and_nothing_else: "
        given leaf in backlog
        be-pm activate                                 -> refused invalid_state, says shape standalone_leaf, backlog, next ceo
        main-pm activate                               -> refused invalid_state, backlog
        ceo activate                                   -> ready
        anew
        given child in backlog
        fe-pm activate                                 -> refused not_authorized, backlog
        be-pm activate                                 -> ready
    ";
    giving_it_up_is_for_good: "
        given leaf in working
        fe-pm cancel                                   -> refused not_authorized, working
        be-pm cancel reason=x                          -> refused incomplete_input, missing reason, try cancel, working
        ceo cancel reason=x                            -> refused incomplete_input, missing reason, try cancel, working
        be-pm cancel                                   -> cancelled, lease none, event task.cancelled
        anew
        given leaf in pm_review held blocked human
        ceo cancel                                     -> cancelled, hold none, inbox 0
        anew
        given leaf in ceo
        ceo cancel                                     -> cancelled, inbox 0
        anew
        given leaf in qa held budget
        ceo cancel                                     -> cancelled
    ";
}
