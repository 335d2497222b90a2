"""Threads that share a queue, forks while they run, and child processes; prints what must not change."""

import multiprocessing
import os
import queue
import subprocess
import sys
import threading

THREADS = 8
JOBS = 2000
FORKS = 12


def work(number):
    return sum(number * factor % 97 for factor in range(20))


def queue_of_jobs():
    """Workers take jobs from one queue; every result must arrive once."""
    jobs, results = queue.Queue(maxsize=16), queue.Queue()

    def worker():
        while (job := jobs.get()) is not None:
            results.put((job, work(job)))

    threads = [threading.Thread(target=worker) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for job in range(JOBS):
        jobs.put(job)
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        thread.join()
    found = dict(results.get_nowait() for _ in range(JOBS))
    assert results.empty() and found == {job: work(job) for job in range(JOBS)}
    print("queue", len(found), sum(found.values()))


def releases_of_the_global_lock():
    """Every read gives the global lock away and takes it back."""
    totals = [0] * THREADS

    def reader(index):
        with open("/dev/zero", "rb", buffering=0) as zero:
            for _ in range(1500):
                totals[index] += len(os.read(zero.fileno(), 64))

    threads = [threading.Thread(target=reader, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("reads", sum(totals))


def child(number, answers):
    """Runs in a forked child: threads must work there too."""
    threads = [threading.Thread(target=lambda: answers.put(work(number))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def forks_while_threads_run():
    """Children inherit locks that threads of the parent hold or wait for at that moment."""
    stop = threading.Event()
    busy = threading.Condition()

    def churn():
        while not stop.is_set():
            with busy:
                busy.wait(0.0002)
                busy.notify()
            work(7)

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    children = [context.Process(target=child, args=(number, answers)) for number in range(FORKS)]
    for process in children:
        process.start()
    received = sorted(answers.get() for _ in range(2 * FORKS))
    for process in children:
        process.join()
    output = [subprocess.run(["echo", str(number)], capture_output=True, check=True).stdout for number in range(5)]
    stop.set()
    for thread in threads:
        thread.join()
    print("forks", received, [process.exitcode for process in children])
    print("children", b"".join(output).split())


def pool():
    """A pool feeds its processes from helper threads."""
    with multiprocessing.get_context("fork").Pool(3) as workers:
        print("pool", sum(workers.map(work, range(500), chunksize=7)))


queue_of_jobs()
releases_of_the_global_lock()
forks_while_threads_run()
pool()
sys.stdout.write("done\n")
