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

All constants are fields of `PlumbSchedule` (in `schedule.py`), named in capitals below. `walk.py` has the steps,
`estimator.py` the order in which they are taken.

Pseudo-code
-----------
For one sample x with label y that the model classifies correctly, and T = `steps` below 100, that is
2 · ROUND_STEPS + REFINING_STEPS::

    # 1. The first planes.
    for the RIVALS strongest other classes k:
        plane_k ← the plane on which f_y − f_k, linearised at x, is 0
    z ← the point of the nearest plane, a little beyond it (OVERSHOOT)
    z ← projection(z)                                      # one step
    if the lead at z is more than SATURATED of the lead at x:
        the sample is saturated: z ← HALFWAY of the way to its nearest reference; slide in trials (4.)
    else if T allows it: add the planes of up to MOST_RIVALS rivals

    # 2. Projections.
    repeat PATIENCE (few steps) or LOOKS (many steps) times: z ← projection(z)
    if nothing was found and more than STUCK of the lead is left: z ← HALFWAY to the reference; slide in trials (4.)
    for the next nearest planes, at most OTHER_PLANES, if not farther than WORTH_TRYING times the nearest:
        project LOOKS times from that plane; continue from whichever of the two searches is nearer
    project until SLIDING_SHARE of all steps is left

    # 3. Slides, if T ≥ SLIDING_FROM.
    slide from the last point for the remaining steps (a sample without success continues to project)

    # 4. Trials, for saturated samples only; with T < 2 · STEPS_PER_TRIAL there is one slide (FAR_SLIDE) instead.
    for references of one class after the other, nearest class first, at most MOST_TRIALS:
        slide for TRIAL_STEPS steps from HALFWAY of the way to the reference
    slide from the best trial for the remaining steps

    # 5. Confirmation by the plain model.
    offer the last point, the nearest crossing that a projection predicted (slightly beyond it, and again slightly
    nearer or farther, see BEYOND), and the best point found
    if nothing was confirmed: use the nearest reference that the model assigns to another class

    projection(z):                                         # Hasofer and Lind, with averaging
        ℓ, g ← lead and negative gradient at z; δ ← z − x
        direction ← mean of all gradients so far; the share of g falls from TURN[0] to TURN[1]
        plane: ⟨g, δ'⟩ = ⟨g, δ⟩ + ℓ
        δ' ← the point of the ray along `direction`, clipped to the domain, on the plane plus OVERSHOOT, with a length
             between SHORTEN and LENGTHEN times ‖δ‖ (LENGTHEN_FOOLED if z is misclassified)
        OVERSHOOT of this sample is halved if z is misclassified, and grows otherwise

    slide(z):                                              # in the manner of DDN (Rony et al. 2019)
        g ← negative gradient at z, without features that cannot move farther; δ ← z − x
        radius ← (1 − change) · radius if z is misclassified, (1 + change) · radius otherwise
        δ' ← δ + step · radius · g / ‖g‖, rescaled to length radius; change and step: `Slide`

With T ≥ 100, further searches of ROUND_STEPS steps each start from references of one class after the other, and the
last REFINING_STEPS steps slide from the best point of all searches.
"""
