# SPDX-License-Identifier: Apache-2.0
"""Training steps of several optimizers end once a turn of each is over."""

from ringtune.world.step_rounds import MOST_REPEATS, StepRounds


class _Optimizer:
    """Stands for an optimizer: an object that can be let go of."""


def _ends(rounds: StepRounds, turns: list[_Optimizer]) -> list[bool]:
    return [rounds.ends_step(optimizer) for optimizer in turns]


def test_each_step_of_a_single_optimizer_ends_a_training_step() -> None:
    """One optimizer, as most programs have it."""
    optimizer = _Optimizer()

    assert [True] * 4 == _ends(StepRounds(), [optimizer] * 4)


def test_optimizers_that_take_turns_end_a_training_step_together() -> None:
    """A generator and a discriminator: one end a round, in either order."""
    rounds, first, second = StepRounds(), _Optimizer(), _Optimizer()
    _ends(rounds, [first, second])  # the first round shows how many there are

    assert [True, False] * 3 == _ends(rounds, [first, second] * 3)


def test_a_critic_may_have_several_turns_in_a_training_step() -> None:
    """Five steps of the critic for one of the generator: one end each six."""
    rounds, critic, generator = StepRounds(), _Optimizer(), _Optimizer()
    turns = [critic] * 5 + [generator]
    _ends(rounds, turns * 2)

    assert 3 == sum(_ends(rounds, turns * 3))


def test_an_optimizer_that_steps_no_more_holds_the_others_up_for_a_while() -> None:
    """A part of the model that is trained at first alone."""
    rounds, first, second = StepRounds(), _Optimizer(), _Optimizer()
    _ends(rounds, [first, second, first])

    ends = _ends(rounds, [first] * (2 * MOST_REPEATS))

    assert [False] * MOST_REPEATS == ends[:MOST_REPEATS]
    assert all(ends[MOST_REPEATS:])


def test_an_optimizer_that_is_gone_holds_nobody_up() -> None:
    """The next fold has an optimizer of its own."""
    rounds, old, new = StepRounds(), _Optimizer(), _Optimizer()
    _ends(rounds, [old, old])
    del old

    assert [True, True] == _ends(rounds, [new, new])
