"""Whoever starts the tests in the background (`make test &` in a script, nohup) has them ignore Ctrl-C, and so
all programs that they start: here it counts again."""

import signal

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
