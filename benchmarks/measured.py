"""Run a command and write what it took to a file descriptor; started by `common.run_timed`.

    python benchmarks/measured.py DESCRIPTOR COMMAND…

The peak memory that Linux reports for a process is at least that of the process that started it.
Therefore this one imports next to nothing.
"""

import os
import sys
import time


def main() -> None:
    descriptor = int(sys.argv[1])
    command = sys.argv[2:]
    start_s = time.perf_counter()
    process = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(process, 0)
    wall_s = time.perf_counter() - start_s
    cpu_s = usage.ru_utime + usage.ru_stime  # those of its own children included
    peak = usage.ru_maxrss  # KiB on Linux, bytes on macOS
    os.write(descriptor, f"{wall_s} {cpu_s} {peak}".encode())
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
