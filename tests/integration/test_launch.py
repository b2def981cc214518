# SPDX-License-Identifier: Apache-2.0
"""`ringtune run -H`: ranks on other hosts, reached by a remote shell that stays on this machine."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.integration.forked_services import ringtune_words
from tests.integration.jobs import Finished, launched_by, ringtune, run_job, started, wait_for_line
from tests.integration.remote_shells import (
    CALLS,
    HURRIED,
    ONE,
    READY,
    TWO,
    WAIT,
    launch,
    lines_of,
    wait_until_ready,
    write_rsh,
)

UNTIL_READY = "while test $(ls $0 | grep -c ready) -lt {count}; do sleep 0.05; done; "


def impatient(command: list[str]) -> list[str]:
    """Return the command with a launcher and agents that wait for seconds where the real ones wait for many."""
    return launched_by("impatient_launcher", command)


def prompt(command: list[str]) -> list[str]:
    """Return the command with a launcher that asks the others to end at once when a rank has failed."""
    return launched_by("prompt_launcher", command)


def test_ranks_run_where_they_belong(tmp_path: Path) -> None:
    """Hosts are filled in order, each is called once, and this machine is not called at all."""
    hosts = f"{ONE}:2,{TWO}:2,localhost:2"

    finished = run_job(launch(tmp_path, hosts, 5, "echo ${LOGIN_NAME:-here} $RINGTUNE_RANK of $RINGTUNE_WORLD_SIZE"))

    assert 0 == finished.code, finished.text
    places = [ONE, ONE, TWO, TWO, "here"]
    assert [[f"{place} {rank} of 5"] for rank, place in enumerate(places)] == [
        lines_of(rank, finished.stdout) for rank in range(5)
    ]
    assert [ONE, TWO] == sorted((tmp_path / CALLS).read_text(encoding="utf-8").split())
    assert "" == finished.stderr


def test_ranks_of_other_hosts_find_their_place_across_hosts(tmp_path: Path) -> None:
    """Horovod's names count the hosts that have a rank with the same local rank."""
    names = "$HOROVOD_LOCAL_RANK $HOROVOD_LOCAL_SIZE $HOROVOD_CROSS_RANK $HOROVOD_CROSS_SIZE"

    finished = run_job(launch(tmp_path, f"{ONE}:2,{TWO}:1", 3, f"echo {names}"))

    assert 0 == finished.code, finished.text
    assert [["0 2 0 2"], ["1 2 0 1"], ["0 1 1 2"]] == [lines_of(rank, finished.stdout) for rank in range(3)]


def test_a_host_without_ranks_is_not_called(tmp_path: Path) -> None:
    """Slots that are not needed cost no call."""
    finished = run_job(launch(tmp_path, f"localhost:2,{TWO}", 2, "echo $RINGTUNE_RENDEZVOUS"))

    assert 0 == finished.code, finished.text
    assert lines_of(0, finished.stdout)[0].startswith("unix:@ringtune-")
    assert not (tmp_path / CALLS).exists()


def test_settings_travel_and_the_rest_is_the_logins(tmp_path: Path) -> None:
    """Settings of the job and its programs are forwarded; the other host sets the rest; one address serves all."""
    environ = {"AUTOTUNE_SEED": "7", "HOROVOD_CYCLE_TIME": "2", "RINGTUNE_STALL_WARN_S": "9", "LANG": "C.UTF-8"}
    foreign = {"PRIVATE": "x", "HOME": "/elsewhere"}
    script = 'env | sort; echo "directory $(pwd)"; cat; test -n "$RINGTUNE_JOB_KEY" && echo has a key'

    finished = run_job(launch(tmp_path, f"{ONE},{TWO}", 2, script), {**environ, **foreign})

    assert 0 == finished.code, finished.text
    for rank in range(2):
        lines = lines_of(rank, finished.stdout)
        found = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z_]+=", line))
        assert environ == {name: found[name] for name in environ}
        assert (os.environ["PATH"], str(tmp_path)) == (found["PATH"], found["HOME"])
        assert "PRIVATE" not in found
        assert f"directory {Path.cwd()}" in lines
        assert "has a key" in lines
    assert 1 == len(set(re.findall(r"RINGTUNE_RENDEZVOUS=(book://\S+)", finished.stdout)))


def test_the_job_key_is_on_no_command_line_and_with_no_agent(tmp_path: Path) -> None:
    """The key is not in the process listing; it reaches agents by standard input."""
    looks = (
        ('cat /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"', "on a command line"),
        ('tr "\\0" "\\n" </proc/$PPID/environ', "in the environment of an agent"),
        ('cat "$0/calls" "$0/rsh"', "in what the shell was told"),
    )
    own_key = '"$0/key.$RINGTUNE_RANK"'  # a pattern in a file: given to grep it would be on a command line
    script = f'printf "%s\\n" "$RINGTUNE_JOB_KEY" >{own_key}; '
    script += " ".join(f"{text} | grep -qFf {own_key} && echo {place};" for text, place in looks)

    finished = run_job(launch(tmp_path, f"{ONE}:2", 2, f"{script} echo looked"))

    assert (0, "[0] looked [1] looked") == (finished.code, " ".join(sorted(finished.stdout.splitlines())))


@pytest.mark.parametrize(
    ("ending", "code", "words"),
    [("exit 7", 7, "exited with code 7"), ("kill -KILL $$", 137, "was killed by SIGKILL")],
)
def test_the_first_failing_rank_decides(tmp_path: Path, ending: str, code: int, words: str) -> None:
    """The job's exit code is that rank's; rank, host and process are named; the others end, on every host."""
    others = f"trap 'touch $0/asked.$RINGTUNE_RANK; exit 9' TERM; {READY} {WAIT}"
    first = f"{READY}{UNTIL_READY.format(count=4)}echo 'KeyError: 17' >&2; {ending}"
    script = f'if test "$RINGTUNE_RANK" = 2; then {first}; else {others}; fi'

    finished = run_job(prompt(launch(tmp_path, f"localhost,{ONE},{TWO}:2", 4, script)))

    (pid,) = [wait_for_line(tmp_path / "ready.2")]
    assert code == finished.code, finished.text
    assert f"rank 2 of 4 (host {TWO}, pid {pid}) {words}, the first to fail" in finished.stderr
    quoted = "" if code == 137 else " It said: KeyError: 17."
    assert f"the job was ended.{quoted} 3 other ranks failed after it" in finished.stderr
    assert ["asked.0", "asked.1", "asked.3"] == sorted(path.name for path in tmp_path.glob("asked.*"))


def test_ranks_that_do_not_heed_the_end_are_killed(tmp_path: Path) -> None:
    """A rank that ignores SIGTERM, or is stopped, does not keep the job."""
    stopped = f"trap 'echo ended in order; exit 4' TERM; {READY} kill -STOP $$"
    fails = UNTIL_READY.format(count=2) + "exit 3"
    script = f'case $RINGTUNE_RANK in 0) {fails};; 1) trap "" TERM; {READY} sleep 600;; 2) {stopped};; esac'

    finished = run_job(impatient(launch(tmp_path, f"{ONE},{TWO}:2", 3, script)))

    assert 3 == finished.code, finished.text
    assert "2 other ranks failed after it" in finished.stderr
    assert ["ended in order"] == lines_of(2, finished.stdout)


def test_a_killed_agent_takes_its_ranks_with_it(tmp_path: Path) -> None:
    """The host's ranks count as lost, the host is named, and no process is left on any host."""
    script = f'{READY} test "$RINGTUNE_RANK" = 2 && kill -KILL $PPID; exec sleep 600'

    finished = run_job(prompt(launch(tmp_path, f"{ONE}:2,{TWO}:2", 4, script)))

    assert 128 + signal.SIGKILL == finished.code, finished.text
    assert f"rank 2 of 4 (host {TWO}, pid " in finished.stderr
    assert "was lost with its host (the connection ended; rsh " in finished.stderr


def test_nothing_survives_a_killed_launcher(tmp_path: Path) -> None:
    """The agents end their ranks, and the processes of these, when the launcher is gone."""
    with started(launch(tmp_path, f"{ONE}:2,{TWO}", 3, READY + WAIT)) as job:
        wait_until_ready(tmp_path, 3)

        os.kill(job.process.pid, signal.SIGKILL)
        finished = job.wait()

    assert -signal.SIGKILL == finished.code, finished.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_users_signal_reaches_every_host(tmp_path: Path, number: signal.Signals) -> None:
    """Each rank may end in its own way; the code tells which signal it was."""
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 0' {name}; {READY} {WAIT}"

    with started(launch(tmp_path, f"localhost,{ONE},{TWO}", 3, script)) as job:
        wait_until_ready(tmp_path, 3)
        os.kill(job.process.pid, number)
        finished = job.wait()

    assert 128 + number == finished.code, finished.text
    assert [[f"got {name}"]] * 3 == [lines_of(rank, finished.stdout) for rank in range(3)]
    assert f"ended by {number.name}, which was passed on to all 3 ranks" in finished.stderr


def test_the_second_signal_kills(tmp_path: Path) -> None:
    """Ranks that ignore Ctrl-C, to whom one signal leaves an hour, cannot ignore impatience."""
    script = f"trap 'touch $0/heard.$RINGTUNE_RANK' INT; {READY} while true; do {WAIT}; done"
    command = launch(tmp_path, f"localhost,{ONE}", 2, script)

    with started(launched_by("patient_launcher", command)) as job:
        wait_until_ready(tmp_path, 2)
        os.kill(job.process.pid, signal.SIGINT)
        wait_for_files(tmp_path, "heard.*", 2)
        os.kill(job.process.pid, signal.SIGINT)
        finished = job.wait()

    assert 128 + signal.SIGINT == finished.code, finished.text


def wait_for_files(folder: Path, pattern: str, count: int) -> None:
    """Wait until so many files are there; the job's deadline bounds it."""
    while len(list(folder.glob(pattern))) < count:
        time.sleep(0.02)


def test_every_host_that_cannot_take_part_is_named_at_once(tmp_path: Path) -> None:
    """One error lists unreachable, talkative and different hosts, with their output; no rank was started."""
    bad = ["unreachable@127.0.0.3", "old@127.0.0.5", "talkative@127.0.0.6"]

    finished = run_job(launch(tmp_path, ",".join([ONE, *bad]), 4, READY + "true"))

    assert 2 == finished.code, finished.text
    assert "3 of 4 other hosts cannot take part, nothing was started" in finished.stderr
    assert "unreachable@127.0.0.3: the connection ended; rsh exited with code 255, saying: no route" in finished.stderr
    assert "old@127.0.0.5: has ringtune 0.0.1 where this machine has" in finished.stderr
    assert "talkative@127.0.0.6: what it said cannot be understood" in finished.stderr
    assert ONE not in finished.stderr
    assert 1 == len(finished.stderr.strip().splitlines())
    assert [] == list(tmp_path.glob("ready.*"))


def test_a_host_that_does_not_answer_is_named_at_the_limit(tmp_path: Path) -> None:
    """The wait for a host that was called and stays silent ends at --start-timeout."""
    finished = run_job(launch(tmp_path, "hanging@127.0.0.4", 1, "true", "--start-timeout", "1"))

    assert 2 == finished.code, finished.text
    assert "hanging@127.0.0.4: no answer within 1 s" in finished.stderr


def test_a_signal_ends_the_wait_for_hosts(tmp_path: Path) -> None:
    """Ctrl-C need not wait for a host that does not answer."""
    with started(launch(tmp_path, "hanging@127.0.0.4", 1, "true", "--start-timeout", "600")) as job:
        wait_for_line(tmp_path / CALLS)
        os.kill(job.process.pid, signal.SIGINT)
        finished = job.wait()

    assert 128 + signal.SIGINT == finished.code, finished.text


def test_a_working_directory_that_is_only_here_is_an_error(tmp_path: Path) -> None:
    """The other host says that it has no such folder."""
    folder = tmp_path / "gone"
    folder.mkdir()
    command = launch(tmp_path, ONE, 1, "true")

    finished = run_job(["sh", "-c", f'cd "{folder}" && rmdir "{folder}" && exec "$@"', "sh", *command])

    assert 2 == finished.code, finished.text
    assert f"{ONE}: the working directory '{folder}' cannot be entered there (No such file" in finished.stderr


@pytest.mark.parametrize("side", ["launcher", "agent"])
def test_silence_is_a_loss(tmp_path: Path, side: str) -> None:
    """A host that hangs is given up; an agent whose launcher hangs ends its ranks. No process waits for ever."""
    script = f"echo $PPID >$0/agent.$RINGTUNE_RANK; {READY} exec sleep 600"

    with started(impatient(launch(tmp_path, f"{ONE},{TWO}", 2, script))) as job:
        rank_pids = wait_until_ready(tmp_path, 2)
        agents = [int(wait_for_line(tmp_path / f"agent.{rank}")) for rank in range(2)]
        os.kill(agents[1] if side == "agent" else job.process.pid, signal.SIGSTOP)
        if side == "launcher":
            wait_for_end(rank_pids)
            os.kill(job.process.pid, signal.SIGCONT)
        else:
            wait_for_line(tmp_path / CALLS)
        finished = job.wait()

    assert 128 + signal.SIGKILL == finished.code, finished.text
    if side == "agent":
        place = f"rank 1 of 2 (host {TWO}, pid {rank_pids[1]})"
        assert f"{place} was lost with its host (nothing was heard from it for 5 s" in finished.stderr


def wait_for_end(pids: list[int]) -> None:
    """Wait until processes are gone; the test's limit bounds it."""
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.02)


def test_a_stopped_terminal_job_goes_on(tmp_path: Path) -> None:
    """Ctrl-Z stops the launcher and not the ranks: the agents know that its silence is no death."""
    script = f"{READY} while ! test -e $0/go; do sleep 0.05; done; echo done"

    with started(impatient(launch(tmp_path, ONE, 1, script))) as job:
        wait_until_ready(tmp_path, 1)
        os.kill(job.process.pid, signal.SIGTSTP)
        os.waitid(os.P_PID, job.process.pid, os.WSTOPPED | os.WNOWAIT)
        time.sleep(8.0)  # longer than the silence that would mean death
        os.kill(job.process.pid, signal.SIGCONT)
        (tmp_path / "go").touch()
        finished = job.wait()

    assert (0, ["done"]) == (finished.code, lines_of(0, finished.stdout)), finished.text


def write_lines(path: Path) -> list[str]:
    """Return the command of a program that writes many lines to both streams in pieces of odd sizes."""
    path.write_text(
        "import os, sys\n"
        "rank = os.environ['RINGTUNE_RANK']\n"
        "for stream in (1, 2):\n"
        "    data = b''.join(b'%d %s\\n' % (n, rank.encode() * 60) for n in range(3000))\n"
        "    while data:\n"
        "        data = data[os.write(stream, data[:977]):]\n"
        "sys.stdout.write('the end')\n",
        encoding="utf-8",
    )
    return [sys.executable, str(path)]


def check_lines(finished: Finished, ranks: int) -> None:
    """Check that every line of every rank is there, whole and in order, on the stream it was written to."""
    assert 0 == finished.code, finished.text[-2000:]
    for rank in range(ranks):
        expected = [f"{number} {str(rank) * 60}" for number in range(3000)]
        assert [*expected, "the end"] == lines_of(rank, finished.stdout)
        assert expected == lines_of(rank, finished.stderr)


def test_lines_of_many_ranks_stay_whole(tmp_path: Path) -> None:
    """Not a byte is lost or mixed, local or remote; half a line waits for its rest, which a busy rank writes late."""
    command = ringtune("run", "-np", "4", "-H", f"localhost:2,{ONE}:2", "--rsh", write_rsh(tmp_path))

    check_lines(run_job([*launched_by("patient_launcher", command), *write_lines(tmp_path / "lines.py")]), 4)


@pytest.mark.parametrize(("host", "ranks"), [("localhost", 1), (ONE, 8), (HURRIED, 8)])
def test_what_a_rank_wrote_last_is_shown(tmp_path: Path, host: str, ranks: int) -> None:
    """Ranks may leave more in their pipes than is read at once, and end: all of it comes, however busy the host is."""
    script = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20); os.write(1, b'x' * (1 << 20)); os._exit(0)"
    options = ["-np", str(ranks), "-H", f"{host}:{ranks}", "--rsh", write_rsh(tmp_path)]
    command = ringtune("run", *options, sys.executable, "-c", script)

    finished = run_job(launched_by("hurried_launcher", command) if host == "localhost" else command)

    assert (0, ranks << 20) == (finished.code, finished.stdout.count("x"))


def test_prefixes_are_for_jobs_with_hosts() -> None:
    """Lines of purely local jobs stay as they are; where hosts are named they get prefixes, without a remote shell."""
    script = 'test "$RINGTUNE_RANK" = 0 && echo out && echo error >&2; exit 0'
    command = ["sh", "-c", script]

    plain = run_job(ringtune("run", "-np", "2", *command))
    hosts = run_job(ringtune("run", "-np", "2", "-H", "localhost:2", *command))

    assert ("out\n", "error\n") == (plain.stdout, plain.stderr)
    assert ("[0] out\n", "[0] error\n") == (hosts.stdout, hosts.stderr)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["-np", "1", "-H", "a,a"], "names the host 'a' twice"),
        (["-np", "2", "-H", "localhost,127.0.0.1"], "localhost and 127.0.0.1 are both this machine"),
        (["-np", "1", "-p", "22"], "-p without -H"),
        (["-np", "1", "--ssh-identity", "key"], "--ssh-identity-file without -H"),
        (["-np", "1", "-H", "a", "--start-timeout", "nan"], "--start-timeout nan is not possible"),
        (["-np", "0", "-H", "a"], "-np 0 is not possible"),
        (["-np", "2", "-H", "no-host.invalid,b.invalid", "--rsh", "sh", "--start-timeout", "1"], "no-host.invalid"),
    ],
)
def test_wrong_usage_of_hosts_is_code_two(arguments: list[str], word: str) -> None:
    """The command line names the fault, in one paragraph, before any host is called."""
    finished = run_job(ringtune_words("run", *arguments, "true"))

    assert 2 == finished.code, finished.text
    assert word in finished.stderr, finished.text
    assert 1 == len(finished.stderr.strip().splitlines())
