"""Estimate distances by repeated projection onto the decision boundary. `plumb` is the default estimator for networks.

Overview
--------
The search looks for the misclassified input nearest to a sample. It uses two kinds of steps. Both evaluate the model
once (one forward and one backward pass) and work with δ, the displacement from the sample in units of the domain's
scale. With the lead ℓ(x) = f_y(x) − max over k ≠ y of f_k(x) and its negative gradient g:

- A *projection* replaces the boundary by the plane on which the linearised lead is 0 and moves to it, along the mean
  of all gradients so far. It converges quickly where the boundary is smooth.
- A *slide* moves along the boundary towards the sample: the radius shrinks after a success and grows after a failure,
  and each step follows the gradient. It uses only the direction of the gradient, close to the boundary, and therefore
  also works where gradients vanish elsewhere (*saturated* samples).

All constants are fields of `PlumbSchedule` (in `schedule.py`), written in capitals below: RIVALS is the field `rivals`.
`walk.py` has the steps, `estimator.py` the order in which they are taken.

Pseudo-code
-----------
For one sample x with label y that the model classifies correctly, and T steps. With T ≥ 2 · ROUND_STEPS +
REFINING_STEPS (100), parts 1 to 5 take what part 6 leaves::

    # 1. The first planes.
    for the RIVALS strongest other classes k:
        plane_k ← the plane on which f_y − f_k, linearised at x, is 0
    z ← the point of the nearest plane, a little beyond it (OVERSHOOT)
    ℓ₁ ← lead at z; z ← projection(z)                      # the first step
    if ℓ₁ is more than SATURATED of the lead at x, or no plane can be reached:
        the sample is saturated: start_at_reference()
    else:
        add the planes of the next classes, T / STEPS_PER_RIVAL classes in all, at most MOST_RIVALS

    # 2. Projections, until LOOKS steps (PATIENCE if T < STEPS_PER_PLANE) are taken.
    repeat: z ← projection(z)
    if nothing was found and the lead is more than STUCK of that at x: start_at_reference()
    for the next nearest planes, T / STEPS_PER_PLANE of them, at least 1 and at most OTHER_PLANES, if T ≥ SLIDING_FROM:
        if the plane is nearer than WORTH_TRYING times the nearest plane:
            project as often as above from that plane; continue from whichever of the two searches is nearer
        else: project as often as above from z
    project until SLIDING_SHARE of all steps is left (with T < SLIDING_FROM: until no step is left)

    # 3. Slides, if T ≥ SLIDING_FROM.
    stop, here and earlier, if z is misclassified and the boundary at most SETTLED times as far as its plane at z
    slide from z for the remaining steps (NEAR_SLIDE); a sample for which nothing was found continues to project

    # 4. Saturated samples only.
    start_at_reference():
        only if the sample has a reference, not farther than WORTHWHILE times the way so far
        if T < 2 · STEPS_PER_TRIAL:
            slide from HALFWAY of the way to the nearest reference for the remaining steps (FAR_SLIDE)
        else:
            for references of the nearest classes, one per class, T / STEPS_PER_TRIAL and at most MOST_TRIALS:
                slide for TRIAL_STEPS steps from HALFWAY of the way to the reference (TRIAL_SLIDE)
            slide from the best trial for the remaining steps (BEST_TRIAL_SLIDE)

    # 5. Confirmation by the original model.
    offer z; offer the nearest crossing that a projection predicted, lengthened by BEYOND_FIRST, and again with
    BEYOND_LESS if that is misclassified and BEYOND_MORE if not; offer the best point found
    if nothing was confirmed: use the nearest reference that the model assigns to another class

    # 6. Only with T ≥ 2 · ROUND_STEPS + REFINING_STEPS: further searches, each confirmed as in 5.
    for every ROUND_STEPS of the steps above ROUND_STEPS + REFINING_STEPS:
        search from HALFWAY of the way to the reference of the next class: project, or slide in trials if saturated
    slide from the best point of all searches for REFINING_STEPS steps (FINE_SLIDE)

    projection(z):                                         # Hasofer and Lind, with averaging
        ℓ, g ← lead and negative gradient at z; δ ← z − x
        if ⟨g, δ⟩ > LEAST_FALL · ‖g‖ · ‖δ‖: a crossing is predicted at (1 + ℓ / ⟨g, δ⟩) · δ, unless that factor is below
            LEAST_CROSSING
        direction ← mean of all gradients so far; the share of g falls from TURN[0] to TURN[1]
        plane: ⟨g, δ'⟩ = ⟨g, δ⟩ + ℓ + overshoot · ‖g‖ · ‖δ‖
        δ' ← the point of the ray along `direction`, clipped to the domain, on the plane, by NEWTON steps (NEWTON_STEP
             where the ray is blocked); its length is between SHORTEN and LENGTHEN times ‖δ‖ (LENGTHEN_FOOLED if z is
             misclassified)
        overshoot ← OVERSHOOT_FACTORS[0] · overshoot if z is misclassified, OVERSHOOT_FACTORS[1] · overshoot otherwise,
             between LEAST_OVERSHOOT and MOST_OVERSHOOT; it begins as OVERSHOOT

    slide(z):                                              # in the manner of DDN (Rony et al. 2019)
        g ← negative gradient at z, without features that cannot move farther; δ ← z − x
        radius ← (1 − change) · radius if z is misclassified, (1 + change) · radius otherwise; at most the best distance
        δ' ← δ + step · radius · g / ‖g‖, rescaled to length radius (in L2 by RADIUS_ROUNDS corrections within
             RADIUS_FACTORS, since it is clipped to the domain); change and step: `Slide`

Where the scores are not finite, both kinds of steps go half of the way back to x.
"""
