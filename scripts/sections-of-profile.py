#!/usr/bin/env python3
"""Critical sections of a profiled program for `lockwork sim --sections`.

    sections-of-profile.py PROFILE.json CPU_SECONDS OPERATIONS LINES [one]

PROFILE.json is of `lockwork profile --format json`. What the program computed beside its sections is its CPU time without them: a
profile's own figure has what threads slept. A section takes its median, or, one time in fifty, what 99% do not exceed: the mean would
have holders that were preempted. LINES of memory are shared in each. `one`: the sections of an operation are one, under one lock.
"""
import json
import sys

profile, cpu, operations, lines = json.load(open(sys.argv[1])), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
locks = [lock for lock in profile["locks"] if lock["acquisitions"] and lock["hold_ns"]["p50"]]
times = [(lock["acquisitions"], lock["hold_ns"]["p50"], lock["hold_ns"]["p99"]) for lock in locks]
total = sum(count for count, _, _ in times)
held = sum(count * (49 * middle + most) / 50 for count, middle, most in times)
outside = max(cpu * 1e9 - held, 0.05 * cpu * 1e9)  # the recorder counts some of its own time as held
is_one = sys.argv[5:] == ["one"]
sections = operations if is_one else total
print(f'unit = "ns"\nthink = "exponential:{outside / sections:.0f}"  # {total / operations:.1f} sections an operation')
if is_one:
    print(f'\n[[lock]]\nname = "all"\nhold = "exponential:{held / operations:.0f}"\nlines = {lines}')
for lock, (count, middle, most) in [] if is_one else sorted(zip(locks, times), key=lambda pair: -pair[1][0]):
    if count * 1000 >= total:
        print(f'\n[[lock]]\nname = "{lock["name"]}"\nshare = {count}\ninstances = {lock["locks"]}')
        print(f'hold = [[{middle}, 49], [{most}, 1]]\nlines = {lines}')
