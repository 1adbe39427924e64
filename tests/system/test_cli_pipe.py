"""`weir pipe`: real pipes on the real clock. What is early fails at any load of the machine; how late
something may be is bounded generously, and only where it says something."""

import fcntl
import os
import random
import re
import signal
import statistics
import subprocess
import threading
import time

import pytest
from terminal import Terminal
from weirserver import DEADLINE_S, WeirServer, clean_environment, wait_until, weir_binary

pytestmark = pytest.mark.alone

SECOND = 1_000_000_000


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)  # the clock that weir paces by


@pytest.fixture(scope="module")
def server():
    with WeirServer() as running:
        yield running


def shared(server, *arguments):
    return [*arguments, "--server", f"127.0.0.1:{server.resp_port}"]


def start(*arguments, **options):
    streams = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return subprocess.Popen([weir_binary(), "pipe", *map(str, arguments)],
                            env=clean_environment(), bufsize=0, **{**streams, **options})


def pipe(*arguments, input=b"", **options):
    """All of it at once: (exit code, standard output, standard error)."""
    process = start(*arguments, **options)
    said, complained = process.communicate(input, timeout=3 * DEADLINE_S)
    return process.returncode, said, complained.decode()


def lines(count):
    return b"".join(b"%d\n" % i for i in range(count))


# ---- What comes out is what went in ----

FAST = "1000000000/s"


@pytest.mark.parametrize("arguments", [[], ["--bytes"], ["--null"], ["-0"]])
def test_any_bytes_pass_unchanged(arguments):
    dice = random.Random(7)
    everything = bytes(dice.choices(range(256), k=50_000)) + dice.randbytes(500_000)
    assert pipe(FAST, *arguments, input=everything) == (0, everything, "")


def test_lines_longer_than_any_buffer_pass_and_cost_once():
    text = b"a\n" + b"x" * 3_000_000 + b"\nb\n" + b"y" * 200_000
    began = now_ns()
    assert pipe("20/s", input=text) == (0, text, "")
    assert 4 * SECOND // 20 <= now_ns() - began < 3 * SECOND  # four lines


@pytest.mark.parametrize("text", [b"", b"\n", b"a", b"a\nb", b"\0", b"\n\n\na"])
def test_small_inputs(text):
    for arguments in ([], ["--bytes"], ["-0"]):
        assert pipe("1000/s", *arguments, input=text) == (0, text, "")


def test_a_line_goes_when_its_instant_has_come_and_not_when_a_buffer_is_full():
    process = start("100/s")
    for text in (b"a\n", b"bc\n", b"\n"):
        process.stdin.write(text)
        assert process.stdout.read(100) == text
    process.stdin.write(b"half")
    process.stdin.close()
    assert process.stdout.read(100) == b"half"
    assert process.wait(DEADLINE_S) == 0


def test_ends_that_do_not_block_are_waited_for():
    process = start(FAST)
    for stream in (process.stdin, process.stdout):
        os.set_blocking(stream.fileno(), False)
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    os.set_blocking(theirs, False)
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    with start(FAST, stdin=ours, stdout=process.stdin) as first:
        text = b"x" * 99 + b"\n"
        left, got = text * 1000, b""
        while len(got) < len(text) * 1000:
            if left:
                try:
                    left = left[os.write(theirs, left):]
                except BlockingIOError:
                    pass
                if not left:
                    os.close(theirs)
            got += process.stdout.read(65536) or b""
        assert got == text * 1000
        os.close(ours)
        process.stdin.close()
        assert first.wait(DEADLINE_S) == process.wait(DEADLINE_S) == 0


# ---- When it comes out ----


def read_stamped(stream, count):
    """[(when, bytes)] of so many lines."""
    got, rest = [], b""
    while len(got) < count:
        some = stream.read(65536)
        assert some, f"the end, after {len(got)} lines"
        when = now_ns()
        *whole, rest = (rest + some).split(b"\n")
        got += [(when, line) for line in whole]
    return got


@pytest.mark.slow
def test_the_worked_example_on_the_real_clock():
    # 5/s, twenty requests 25 ms apart: a line lets them go at 200, 400, ... ms, and drops none.
    process = start("5/s", "capacity=10")
    began = now_ns()
    stamped = []
    reader = threading.Thread(target=lambda: stamped.extend(read_stamped(process.stdout, 20)))
    reader.start()
    for i in range(20):
        time.sleep(max(0, (began + i * 25_000_000 - now_ns()) / SECOND))
        process.stdin.write(b"%d\n" % (i + 1))
    process.stdin.close()
    reader.join(DEADLINE_S)
    assert process.wait(DEADLINE_S) == 0
    assert [line for _, line in stamped] == [b"%d" % (i + 1) for i in range(20)]
    late = [when - began - (i + 1) * 200_000_000 for i, (when, _) in enumerate(stamped)]
    assert min(late) >= 0
    assert statistics.median(late) < 50_000_000  # the error of a busy machine; idle: below 1 ms
    gaps = [b[0] - a[0] for a, b in zip(stamped, stamped[1:])]
    assert abs(statistics.median(gaps) - 200_000_000) < 5_000_000


def test_it_is_never_ahead_of_the_rate_and_hardly_behind():
    process = start("--bytes", "1000000/s")
    feeder = threading.Thread(target=lambda: (process.stdin.write(bytes(1_000_000)),
                                              process.stdin.close()))
    began = now_ns()
    feeder.start()
    total, reads = 0, 0
    while some := process.stdout.read(65536):
        total += len(some)
        reads += 1
        assert total * 1000 <= now_ns() - began  # 1000 ns per byte
    assert (total, process.wait(DEADLINE_S)) == (1_000_000, 0)
    assert now_ns() - began < 3 * SECOND
    assert reads > 50  # no chunks of 100 ms
    feeder.join()


def test_cost_and_capacity():
    began = now_ns()
    assert pipe("50/s", "--cost", "5", input=lines(3)) == (0, lines(3), "")
    assert now_ns() - began >= 3 * SECOND // 10
    code, said, complained = pipe("50/s", "--cost", "50.5", input=lines(3))
    assert (code, said) == (2, b"")
    assert "a cost of 50.5 never fits in a line of 50" in complained


def stopped(process):
    with open(f"/proc/{process.pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


def test_nothing_is_caught_up_after_a_stall():
    process = start("100/s")
    feeder = threading.Thread(target=process.stdin.write, args=(lines(100),))
    feeder.start()
    read_stamped(process.stdout, 3)
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: stopped(process), "the stop")
    os.set_blocking(process.stdout.fileno(), False)
    while process.stdout.read(65536):
        pass  # what had left before
    os.set_blocking(process.stdout.fileno(), True)
    time.sleep(1)  # the stall itself
    began = now_ns()
    process.send_signal(signal.SIGCONT)
    read_stamped(process.stdout, 50)
    # One is overdue and goes at once, then one each 10 ms; caught up it would be all at once.
    assert now_ns() - began >= 49 * SECOND // 100 - 5_000_000
    feeder.join()
    process.kill()
    process.communicate()


def test_nothing_is_caught_up_after_a_reader_that_did_not_read():
    ours, theirs = os.pipe()
    room = fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    line = b"x" * (room - 1) + b"\n"  # one fills the pipe
    process = start("100/s", stdout=theirs)
    os.close(theirs)
    feeder = threading.Thread(target=process.stdin.write, args=(line * 40,))
    feeder.start()
    got = len(os.read(ours, room))
    time.sleep(1)  # meanwhile one is in the pipe, and the next cannot be written
    began = now_ns()
    while got < 30 * room:
        got += len(os.read(ours, 65536))
    assert now_ns() - began >= 26 * SECOND // 100 - 5_000_000
    os.close(ours)
    feeder.join(DEADLINE_S)
    process.kill()
    process.communicate()


def ticks(process):
    """The processor's time that it has used, in hundredths of a second."""
    with open(f"/proc/{process.pid}/stat") as stat:
        return sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))


@pytest.mark.parametrize("shared_key", [[], ["--key", "stalled"]])
def test_a_reader_that_stalls_finds_one_line_and_then_the_rate(server, shared_key):
    arguments = shared(server, *shared_key) if shared_key else []
    process = start("50/s", *arguments)
    feeder = threading.Thread(target=process.stdin.write, args=(lines(1000),))
    feeder.start()
    read_stamped(process.stdout, 3)
    used = ticks(process)
    time.sleep(1)  # the stall itself: 50 intervals
    assert ticks(process) - used < 20  # it sleeps as well
    reads = [(process.stdout.read(65536), now_ns()) for _ in range(20)]
    assert max(some.count(b"\n") for some, _ in reads) == 1
    # The one that lay there has left now, and the next only an interval later.
    assert reads[1][1] - reads[0][1] >= 15_000_000
    assert reads[-1][1] - reads[0][1] >= 19 * SECOND // 50 - 5_000_000
    process.kill()
    process.communicate()
    feeder.join()


@pytest.mark.parametrize("rate", [100_000, 2_000_000])
def test_a_reader_of_bytes_that_stalls_finds_10_ms_of_them(rate):
    process = start("--bytes", f"{rate}/s")
    feeder = threading.Thread(target=process.stdin.write, args=(bytes(10_000_000),))
    feeder.start()
    for _ in range(20):
        process.stdout.read(65536)
    time.sleep(0.5)  # the stall itself
    assert len(process.stdout.read(65536)) <= rate // 100
    process.kill()
    process.communicate()
    feeder.join()


def test_the_pipe_that_it_writes_to_is_as_wide_afterwards_as_before():
    ours, theirs = os.pipe()
    width = fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ)
    process = start("1000/s", stdout=theirs)
    process.stdin.write(b"a\n")
    assert os.read(ours, 10) == b"a\n"
    assert fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ) == os.sysconf("SC_PAGESIZE")
    process.stdin.close()
    assert process.wait(DEADLINE_S) == 0
    assert fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ) == width
    os.close(ours)
    os.close(theirs)


def test_what_is_no_pipe_is_written_to_as_ever(tmp_path):
    with open(tmp_path / "file", "wb") as file:
        assert pipe("1000/s", input=lines(9), stdout=file)[0] == 0
    assert (tmp_path / "file").read_bytes() == lines(9)


def test_limits_are_queues_here():
    def took(*limit, count=3):
        began = now_ns()
        assert pipe(*limit, input=lines(count)) == (0, lines(count), "")
        return now_ns() - began

    assert took("queue", "20/s") >= 150_000_000
    assert took("bucket 20/s capacity=9") >= 150_000_000  # no burst, whatever it is elsewhere
    assert took("20/s first=now") >= 100_000_000
    assert took("1/h", "first=now", count=1) < DEADLINE_S * SECOND  # at once


# ---- Several that share one rate ----


class Reader(threading.Thread):
    """Reads all that a pipe lets through, and when."""

    def __init__(self, *arguments, text):
        super().__init__()
        self.process = start(*arguments)
        self.feeder = threading.Thread(target=self.feed, args=(text,))
        self.stamps, self.got = [], b""
        self.start()
        self.feeder.start()

    def feed(self, text):
        self.process.stdin.write(text)
        self.process.stdin.close()

    def run(self):
        while some := self.process.stdout.read(65536):
            self.stamps.append((now_ns(), some))
            self.got += some

    def finish(self):
        self.join(3 * DEADLINE_S)
        self.feeder.join(DEADLINE_S)
        assert self.process.wait(DEADLINE_S) == 0, self.process.stderr.read()
        return self.got


@pytest.mark.parametrize("limit, count", [
    ("200/s", 100), ("20/s", 10), ("5000/s", 2000), ("200/s waiting=0", 10)])
def test_pipes_with_one_key_share_one_rate(server, limit, count):
    rate = int(limit.split("/")[0])
    began = now_ns()
    pipes = [Reader(*shared(server, limit, "--key", f"lines:{limit}"), text=lines(count))
             for _ in range(2)]
    assert [each.finish() for each in pipes] == [lines(count)] * 2
    stamps = sorted((when, some.count(b"\n")) for each in pipes for when, some in each.stamps)
    total = 0
    for when, some in stamps:
        total += some
        assert total * SECOND <= (when - began) * rate  # together never above it
    ends = [each.stamps[-1][0] - began for each in pipes]
    assert min(ends) > max(ends) / 2  # and each has had its share


def test_pipes_share_a_rate_of_bytes(server):
    text = random.Random(3).randbytes(150_000)
    began = now_ns()
    pipes = [Reader(*shared(server, "--bytes", "500000/s", "--key", "bytes"), text=text)
             for _ in range(3)]
    assert [each.finish() for each in pipes] == [text] * 3
    total = 0
    for when, count in sorted((when, len(some)) for each in pipes for when, some in each.stamps):
        total += count
        assert total * SECOND <= (when - began) * 500_000


def test_a_full_line_is_waited_for_asleep(server):
    limit = "queue 1/s capacity=1"
    assert server.command("WEIR.TAKE", "full", limit)[0] == 0  # it is, for a second
    process = start(*shared(server, limit, "--key", "full"))
    process.stdin.write(b"x\n")
    assert process.stdout.readline() == b"x\n"
    assert ticks(process) < 50  # of two seconds
    process.stdin.close()
    assert process.wait(DEADLINE_S) == 0


def test_who_finds_the_line_full_comes_again(server):
    pipes = [Reader(*shared(server, "100/s capacity=1", "--key", "narrow"), text=lines(10))
             for _ in range(3)]
    assert [each.finish() for each in pipes] == [lines(10)] * 3


def test_a_pipe_and_others_stand_in_one_line(server):
    limit = "queue 10/s capacity=10"
    for _ in range(5):
        assert server.command("WEIR.TAKE", "mixed", limit)[0] == 0
    began = now_ns()
    reader = Reader(*shared(server, limit, "--key", "mixed"), text=b"a\n")
    assert reader.finish() == b"a\n"
    assert reader.stamps[0][0] - began > 400_000_000  # behind those five


def test_a_lone_pipe_has_nearly_all_of_the_rate(server):
    began = now_ns()
    reader = Reader(*shared(server, "2000/s", "--key", "alone"), text=lines(1000))
    assert reader.finish() == lines(1000)
    assert SECOND // 2 <= now_ns() - began < 3 * SECOND


def test_an_idle_pipe_finds_a_server_that_has_started_anew():
    with WeirServer() as restarted:
        process = start(*shared(restarted, "100/s", "--key", "k"))
        for i in range(3):
            process.stdin.write(b"%d\n" % i)
            assert process.stdout.readline() == b"%d\n" % i
            restarted.restart()
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0, process.stderr.read()


def test_a_server_that_ends_ends_the_pipe():
    with WeirServer() as ending:
        process = start(*shared(ending, "10/s", "--key", "k"))
        process.stdin.write(lines(100))
        assert process.stdout.readline() == b"0\n"
        ending.stop()
        assert process.wait(DEADLINE_S) == 3
        assert b"server at 127.0.0.1:" in process.stderr.read()  # it closed, or is gone


# ---- How it ends ----


def test_it_ends_with_its_reader_as_any_filter():
    process = start("1000/s")
    process.stdin.write(lines(1000))
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    assert process.wait(DEADLINE_S) == -signal.SIGPIPE
    assert process.stderr.read() == b""


def test_it_sees_its_reader_go_while_it_waits():
    for text in (b"", b"in an hour\n"):  # for input, and for the instant
        process = start("1/h")
        process.stdin.write(text)
        process.stdout.close()
        assert process.wait(DEADLINE_S) == -signal.SIGPIPE


def test_a_reader_that_is_gone_is_a_failure_where_the_signal_is_ignored():
    process = start("1000/s", restore_signals=False)
    process.stdout.close()
    assert process.wait(DEADLINE_S) == 3
    assert process.stderr.read() == b"weir pipe: standard output: Broken pipe\n"


def test_ctrl_c_ends_it():
    process = start("1000/s")
    process.stdin.write(b"x\n")
    assert process.stdout.readline() == b"x\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == -signal.SIGINT


@pytest.mark.once
def test_what_cannot_be_read_or_written_is_a_failure():
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            code, _, complained = pipe("1000/s", input=b"a\n", stdout=full)
        assert (code, complained) == (3, "weir pipe: standard output: No space left on device\n")
    for closed, name in (("<&-", "input"), (">&-", "output")):
        done = subprocess.run(f'"{weir_binary()}" pipe 1000/s {closed}', shell=True,
                              capture_output=True, text=True, env=clean_environment())
        assert done.returncode == 3
        assert done.stderr == f"weir pipe: standard {name}: Bad file descriptor\n"
    folder = os.open("/", os.O_RDONLY)
    process = start("1000/s", stdin=folder)
    said, complained = process.communicate(timeout=DEADLINE_S)
    os.close(folder)
    assert (process.returncode, said) == (3, b"")
    assert complained == b"weir pipe: standard input: Is a directory\n"


# ---- How far it is ----


@pytest.mark.once
def test_progress_is_said_when_it_is_wanted_and_at_the_end():
    assert pipe("1000/s", input=lines(3))[2] == ""
    assert pipe("1000/s", "--quiet", input=lines(3))[2] == ""
    assert re.fullmatch(r"3 lines  [\d.]+/s  0 s\n", pipe("1000/s", "--progress", input=lines(3))[2])
    assert re.match(r"1 line  ", pipe("1000/s", "--progress", input=b"a")[2])
    said = pipe("10000/s", "--bytes", "--progress", input=bytes(12_000))[2]
    first, last = said.splitlines()
    assert re.fullmatch(r"\d[.\d]* kB  \d[.\d]* kB/s  1 s", first)
    assert re.fullmatch(r"12 kB  \d[.\d]* kB/s  \d s", last)


def pipe_on_terminal(*arguments, **streams):
    terminal = Terminal("pipe", *arguments, stdin=subprocess.PIPE, **streams)
    terminal.process.stdin.write(lines(3))
    terminal.process.stdin.close()
    said = terminal.read_all()
    assert terminal.process.returncode == 0
    return said


@pytest.mark.once
def test_a_terminal_sees_how_far_it_is():
    said = pipe_on_terminal("1000/s", stdout=subprocess.DEVNULL)
    assert re.fullmatch(r"\r\033\[K3 lines  [\d.]+/s  0 s\r\n", said)
    assert pipe_on_terminal("1000/s", "--quiet", stdout=subprocess.DEVNULL) == ""
    # The lines themselves are on the terminal: they are not written over.
    assert pipe_on_terminal("1000/s") == "0\r\n1\r\n2\r\n"
    assert "3 lines" in pipe_on_terminal("1000/s", "--progress")


@pytest.mark.once
def test_a_terminal_sees_it_once_a_second_whatever_it_waits_for():
    terminal = Terminal("pipe", "1/h", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    terminal.read_until(b"0 lines  0/s", times=2)
    assert b"0 lines  0/s  1 s" in terminal.said and b"0 lines  0/s  2 s" in terminal.said
    terminal.process.kill()
    terminal.close()


# ---- The command line ----


@pytest.mark.once
@pytest.mark.parametrize("arguments, said", [
    ([], "say which limit"),
    (["5/q"], "unknown unit 'q'"),
    (["5/s", "--cost", "x"], "expected the cost"),
    (["5/s", "--cost", "0"], "lines that cost 0 would all go at once"),
    (["5/s", "--bytes", "--cost", "2"], "--cost is about lines, and --bytes knows none"),
    (["5/s", "--bytes", "-0"], "--null is about lines, and --bytes knows none"),
    (["5/s", "--quiet", "--progress"], "exclude each other"),
    (["5/s", "--server", "127.0.0.1:1"], "--server is of no use without --key"),
    (["5/s", "--key", ""], "a key has 1 to 65535 bytes"),
    (["5/s", "--key", "k", "--server", "nowhere"], "bad server address"),
    (["5/s", "-1"], "unknown option -1"),
    (["5/s", "--0"], "unknown option --0"),
    (["0.5/s", "capacity=0.5"], "a cost of 1 never fits in a line of 0.5"),
    (["1" * 300], "a limit has at most 256 bytes"),
    (["5/s"] * 17, "too many words"),
])
def test_a_wrong_command_line_is_exit_2(arguments, said):
    code, output, complained = pipe(*arguments)
    assert (code, output) == (2, b"")
    assert said in complained


@pytest.mark.once
def test_no_server_is_exit_3():
    code, output, complained = pipe("5/s", "--key", "k", "--server", "127.0.0.1:1", input=b"a\n")
    assert (code, output) == (3, b"")
    assert "no server at 127.0.0.1:1" in complained
