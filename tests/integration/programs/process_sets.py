# SPDX-License-Identifier: Apache-2.0
"""Process sets on four ranks: static, dynamic, at the same time, refused, removed, and again."""

import threading
from array import array
from pathlib import Path

from ringtune.errors import ConfigError, PeerLostError, RingtuneError
from ringtune.session.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ringtune.session.session import SESSION
from ringtune.world.world import World
from tests.integration.plain_rank import allreduce, say, submit, wait

ROUNDS = 200


def refusal(function: object, *arguments: object) -> str:
    """Return the text of the error that a call must raise."""
    try:
        function(*arguments)  # type: ignore[operator]
    except ConfigError as error:
        return str(error)
    raise AssertionError(f"{function}{arguments} was not refused")


def count_threads() -> int:
    """Return the number of threads of this process, the engine's included."""
    return len(list(Path("/proc/self/task").iterdir()))


def is_closed(world: World) -> bool:
    """Tell whether a world was shut down."""
    try:
        world.engine.barrier()
    except RingtuneError:
        return True
    return False


def check_static(even: ProcessSet, odd: ProcessSet, rank: int) -> None:
    """Every rank is in one of the two sets that came with init()."""
    own, other = (even, odd) if rank % 2 == 0 else (odd, even)
    assert (own.included(), other.included()) == (True, False)
    assert (own.size(), own.rank(), own.ranks) == (2, rank // 2, [rank % 2, 2 + rank % 2])
    assert (own.rank_of(2 + rank % 2), own.world.size) == (1, 2)
    assert own.world.job_key not in {SESSION.require().job_key, b""}  # who is kept out cannot come in by the job's key
    assert "is not in process set" in refusal(other.rank)
    assert "is not in process set" in refusal(lambda: other.world)
    assert [float(sum(own.ranks or []))] == allreduce(own.world, "sum", [float(rank)])


def check_sets_do_not_wait_for_each_other(even: ProcessSet, rank: int) -> None:
    """A set goes on while the global world waits for a rank, and both run at once."""
    if rank in {0, 2}:
        pending = array("d", [1.0])
        handle = submit(SESSION.require(), "late", pending)  # the odd ranks are not there yet
        for number in range(ROUNDS):
            assert [2.0] == allreduce(even.world, f"meanwhile{number}", [1.0])
        say(f"rank {rank} went on meanwhile")
        wait(SESSION.require(), handle)
        assert [4.0] == list(pending)
    else:
        assert [4.0] == allreduce(SESSION.require(), "late", [1.0])


def check_threads(own: ProcessSet) -> None:
    """Global and set collectives of one rank go on in two threads."""

    def global_rounds() -> None:
        for number in range(ROUNDS):
            assert [4.0] == allreduce(SESSION.require(), f"global{number}", [1.0])

    thread = threading.Thread(target=global_rounds)
    thread.start()
    for number in range(ROUNDS):
        assert [2.0] == allreduce(own.world, f"set{number}", [1.0])
    thread.join()


def check_dynamic(rank: int) -> None:
    """Sets are added, refused and removed on all ranks alike."""
    threads = count_threads()
    big = add_process_set([3, 0, 1])
    assert [0, 1, 3] == big.ranks
    assert (count_threads() > threads) == (rank != 2)
    if rank == 2:
        assert not big.included()
    else:
        assert [3.0] == allreduce(big.world, "x", [1.0])
    alone = add_process_set(ProcessSet([2]))
    if rank == 2:
        assert [7.0] == allreduce(alone.world, "x", [7.0])
    assert "exists already" in refusal(add_process_set, [0, 1, 3])
    assert "exists already" in refusal(add_process_set, [0, 1, 2, 3])
    assert "was added before" in refusal(add_process_set, big)
    assert "there are ranks 0 to 3" in refusal(add_process_set, [0, 4])
    assert "add and remove the same process sets" in refusal(add_process_set, [0, 1] if rank else [0, 2])
    kept = big.world if rank != 2 else None
    assert remove_process_set(big)
    assert kept is None or is_closed(kept)
    assert [None] * 3 == [big.process_set_id, big.ranks, big.included()]
    assert "cannot be removed" in refusal(remove_process_set, big)
    assert not remove_process_set(global_process_set)
    again = add_process_set([0, 1, 3])
    if again.included():
        assert [3.0] == allreduce(again.world, "x", [1.0])


def main() -> None:
    """Check all of it, twice over, as a job that initialises again does."""
    assert "not part of the running job" in refusal(lambda: global_process_set.world)
    for _ in range(2):
        even, odd = ProcessSet([0, 2]), ProcessSet([3, 1])
        assert (even.rank(), even.size(), even.included()) == (None, None, None)
        SESSION.init([even, odd])
        rank = SESSION.require().rank
        assert (global_process_set.ranks, global_process_set.process_set_id) == ([0, 1, 2, 3], 0)
        check_static(even, odd, rank)
        check_sets_do_not_wait_for_each_other(even, rank)
        check_threads(even if rank % 2 == 0 else odd)
        check_dynamic(rank)
        SESSION.shutdown()
        assert (even.included(), global_process_set.included()) == (None, None)
    say(f"rank {rank} is right")


try:
    main()
except PeerLostError as error:
    say(f"another rank failed first: {error}")
    raise
