#!/usr/bin/env bash
# How far loom explores the models of the source at hand: writes the counts and tables of crates/testkit/BOUNDS.md anew. Takes some
# minutes.
#
#   scripts/bounds.sh [FILE]      FILE: what the tests have noted already, under LOCKWORK_BOUNDS=FILE
set -euo pipefail
cd "$(dirname "$0")/.."

readonly DOCUMENT=crates/testkit/BOUNDS.md
SCRATCH=$(mktemp -d)
readonly SCRATCH
trap 'rm -rf "$SCRATCH"' EXIT

# Has the two test programs note what they explore.
explore() {
    LOCKWORK_BOUNDS=$SCRATCH/noted CARGO_PROFILE_DEV_PANIC=unwind \
        cargo test -q -p lockwork-testkit --test loom --test rw_loom -- --skip "mutants of" >&2
}

if (($# > 0)); then cp "$1" "$SCRATCH/noted"; else explore; fi

# The first line of the output is for the sentence with the sums, the rest is the tables.
LC_ALL=C sort "$SCRATCH/noted" | awk '
    # The rows of one table: its title, what a row is for, threads.
    function note(title, row, threads, switches, executions,    key) {
        if (!(title in rows)) titles[++tables] = title
        key = title SUBSEP row SUBSEP threads
        if (!(key in models)) { rows[title] = rows[title] key "\n"; few[key] = least[key] = 1e18 }
        models[key]++
        if (switches < few[key]) few[key] = switches
        if (switches > many[key]) many[key] = switches
        if (executions < least[key]) least[key] = executions
        if (executions > most[key]) most[key] = executions
    }
    function thousands(n,    text) {
        text = sprintf("%d", n)
        while (match(text, /[0-9][0-9][0-9][0-9](,|$)/)) text = substr(text, 1, RSTART) "," substr(text, RSTART + 1)
        return text
    }
    function range(from, to) { return from == to ? thousands(from) : thousands(from) " to " thousands(to) }
    !/^bound: [^:]+::.+: [0-9]+ threads, [0-9]+ nodes, [0-9]+ switches, [0-9]+ executions, [^ ]+$/ {
        print "bounds: this is no note of a test: " $0 > "/dev/stderr"
        failed = 1
        exit 1
    }
    {
        sub(/^bound: /, "")
        rw = / \(spin [01]\): /
        count = split($0, part, ": ")
        name = part[1]
        for (i = 2; i < count; i++) name = name ": " part[i]
        split(part[count], figure, /[ ,]+/)
        threads = figure[1]; nodes = figure[3]; switches = figure[5]; executions = figure[7]
        at = index(name, "::")
        subject = substr(name, 1, at - 1); scenario = substr(name, at + 2)
        all++; total += executions
        if (rw) { note("Reader-writer locks, by lock", subject, threads, switches, executions); next }
        if (subject ~ /^cond/) title = "The condition variable, with `futex` and with `mcs-stp`"
        else if (subject ~ /^(batches|published|start|waiters)$/) title = "Below the locks: the pool, publication, the library\047s start, the registry of waiters"
        else if (subject ~ /^wait-free$/) title = "`WaitFree`"
        else if (subject ~ /^gcr-numa/) title = "GCR by node around `futex`, on two nodes"
        else if (subject ~ /^gcr/) title = "GCR around `tas`, `futex` and `mcs-stp`"
        else if (subject ~ /^biased/) title = "Biased `tas`, `futex` and `mcs-stp`"
        else if (nodes > 1) title = "Locks that know nodes, on two nodes"
        else title = "All other locks"
        if (!((title, subject) in known)) {
            known[title, subject]; subjects[title]++
            list[title] = list[title] (list[title] ? ", " : "") "`" subject "`"
        }
        note(title, scenario, threads, switches, executions)
    }
    END {
        if (failed) exit 1
        if (!all) { print "bounds: no test said what it explored" > "/dev/stderr"; exit 1 }
        printf "%s models, %s executions.\n", thousands(all), thousands(total)
        for (t = 1; t <= tables; t++) {
            title = titles[t]
            printf "\n### %s\n\n", title
            if (title in list) printf "%d subject%s: %s.\n\n", subjects[title], subjects[title] == 1 ? "" : "s", list[title]
            printf "| %s | threads | models | involuntary switches | executions |\n|---|---|---|---|---|\n",
                title in list ? "scenario" : "lock"
            n = split(rows[title], key, "\n")
            for (i = 1; i < n; i++) {
                split(key[i], field, SUBSEP)
                printf "| %s | %s | %d | %s | %s |\n", field[2], field[3], models[key[i]],
                    range(few[key[i]], many[key[i]]), range(least[key[i]], most[key[i]])
            }
        }
    }' >"$SCRATCH/tables"

counts=$(head -n 1 "$SCRATCH/tables")
source="$(git rev-parse --short=7 HEAD), $(date +%F)"
tail -n +2 "$SCRATCH/tables" >"$SCRATCH/only-tables"
awk -v counts="$counts" -v source="$source" -v tables="$SCRATCH/only-tables" '
    /^[0-9,]+ models, [0-9,]+ executions\./ { sub(/^[0-9,]+ models, [0-9,]+ executions\./, counts) }
    /^[0-9a-f]+, [0-9]+-[0-9]+-[0-9]+ \(loom / { sub(/^[0-9a-f]+, [0-9-]+/, source) }
    /^<!-- end of the tables -->$/ { inside = 0 }
    !inside { print }
    /^<!-- tables, by scripts\/bounds.sh -->$/ {
        inside = 1
        while ((getline line <tables) > 0) print line
        print ""
    }
' "$DOCUMENT" >"$SCRATCH/document"
cp "$SCRATCH/document" "$DOCUMENT"
echo "$counts"
