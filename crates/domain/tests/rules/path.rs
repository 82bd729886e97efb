//! The path of a leaf that nobody sends back, row by row.

super::scenarios! {
    a_leaf_goes_from_the_ceo_to_the_ceo_and_is_merged: "
        given leaf in ready                            -> status pending, next be-dev-1+be-dev-2 i_will_work_on
        hold back
        starts be-dev-1 i_will_work_on                 -> ready, event spawn.intended spawn.started
        be-dev-1 i_will_work_on                        -> ready, lease be-dev-1, status claimed, event task.claimed task.plan_set, pending cut_branch, waits, next waits
        settle                                         -> working, status in_progress, lease be-dev-1, owner be-dev-1, event branch.cut task.started
        hold back
        be-dev-1 commit                                -> working, pending commit, no event, waits
        settle                                         -> working, event commit.recorded
        be-dev-1 open_pr                               -> working, event pr.opened, pending
        hold back
        be-dev-1 i_am_done                             -> self_check, status verifying, event task.submitted criterion.evidenced criterion.evidenced, pending gate, closed be-dev-1 none
        settle                                         -> qa, status awaiting_qa, lease none, owner none, author be-dev-1, event gate.passed task.handed_to_qa, closed be-dev-1 i_am_done, next be-qa claim_review
        ends be-dev-1                                  -> qa, event spawn.ended, strikes 0
        hold back
        starts be-qa claim_review                      -> qa, event spawn.intended spawn.started
        be-qa claim_review                             -> qa, lease be-qa, status awaiting_qa, event review.claimed, pending pin, waits
        settle                                         -> qa, event review.pinned, pending
        be-qa pass                                     -> docs, lease none, status awaiting_documentation, event review.passed, closed be-qa pass
        ends be-qa                                     -> docs, event spawn.ended
        starts be-doc claim_doc_task                   -> docs, event spawn.intended spawn.started
        be-doc claim_doc_task                          -> docs, lease be-doc, event docs.claimed
        be-doc commit                                  -> docs, event commit.recorded
        be-doc i_documented                            -> pm_review, status awaiting_pm_review, owner be-pm, lease none, event docs.recorded review.carried, next be-pm complete
        ends be-doc                                    -> event spawn.ended
        starts be-pm complete                          -> event spawn.intended spawn.started
        be-pm complete                                 -> ceo, status awaiting_ceo_approval, inbox 1, event task.accepted task.sent_to_ceo inbox.opened, next ceo
        ends be-pm                                     -> ceo
        hold back
        ceo approve                                    -> ceo, event ceo.approved, pending land, waits
        settle                                         -> done, status completed, inbox 0, next nobody
    ";
    the_merge_completes_the_task_and_decides_the_item: "
        given leaf in ceo
        hold back
        ceo approve                                    -> pending land
        settle                                         -> done, event merge.landed task.completed inbox.decided
    ";
    work_under_a_parent_is_merged_by_its_pm: "
        given child in pm_review
        hold back
        be-pm complete                                 -> pm_review, event task.accepted, pending land, waits, next waits
        settle                                         -> done, event merge.landed task.completed, closed be-pm complete
    ";
    what_a_pm_set_aside_its_pm_releases: "
        given child in backlog                         -> status backlog, next be-pm activate
        be-dev-1 i_will_work_on                        -> refused invalid_state, backlog
        fe-pm activate                                 -> refused not_authorized, backlog
        be-pm activate                                 -> ready, event task.activated
    ";
    what_the_ceo_set_aside_waits_for_the_ceo: "
        given leaf in backlog                          -> status backlog, next ceo
        ceo activate                                   -> ready, event task.activated
    ";
}
