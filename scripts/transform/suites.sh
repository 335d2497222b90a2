# shellcheck shell=bash
# What the programs' own tests have in common. Part of transform-programs.sh.

# way_of DELEGATE: sets `name` and `option`, the tree that goes with it and how that is converted: combiners cannot be held.
way_of() {
    name=hold option=--hold
    [[ $1 != *-synch && $1 != fc-list && $1 != oyama ]] || name=any option=--
}

# transformed TREE [OPTION...]: the program in a tree is converted; what COMPILE_LINES noted says how it is compiled.
transformed() {
    local tree=$1
    shift
    database "$tree/lines" "$tree/compile_commands.json"
    /usr/bin/time -f "$(basename "$tree"): converted in %e s" "$lockwork" transform -p "$tree" --in-place "$@" >"$tree/converted.log"
    tail -1 "$tree/converted.log"
}

# warnings_of LOG: what a compiler has warned of, without the lines, which move, and sorted, as files come in any order. A type by the name
# of a typedef is the type: gcc forgets that name where closures use a variable.
warnings_of() {
    sed -nE "s/‘[^’]*’ \{aka (‘[^’]*’)\}/\1/g; s/^([^: ]+\.[ch]):[0-9]+:[0-9]+: warning: /\1: /p" "$1" | sort
}

# warns_as_before BEFORE AFTER [EXPECTED]: whether the build of the converted program has warned of nothing that the original's has not, but
# for lines that match EXPECTED.
warns_as_before() {
    local new
    new=$(comm -13 <(warnings_of "$1") <(warnings_of "$2") | grep -vE "${3:-^$}" || true)
    [[ -n $new ]] || return 0
    echo "  FAILED: new warnings:"
    echo "$new"
    failures=$((failures + 1))
}

# passed NAME DELEGATE LOG COMMAND...: says whether the command succeeds; the lines that it ends with are in LOG.
passed() {
    local name=$1 delegate=$2 log=$3
    shift 3
    if LOCKWORK_DELEGATE=$delegate timeout "${TEST_SECONDS:-1200}" "$@" >"$log" 2>&1; then
        echo "  $name: passed"
    else
        echo "  $name: FAILED: $(tail -1 "$log")"
        failures=$((failures + 1))
    fi
}

# uses_delegates COMMAND...: a delegate of no name ends a program in which any mutex is one. What ThreadSanitizer reports does not.
uses_delegates() {
    local status=0
    TSAN_OPTIONS=exitcode=0 LOCKWORK_DELEGATE=no-such timeout 60 "$@" >/dev/null 2>&1 || status=$?
    # 124: it has run until the time was over.
    if ((status == 0 || status == 124)); then
        echo "FAILED: no mutex is a delegate in $(basename "$1")"
        exit 1
    fi
}

# suites PROGRAM DELEGATE...: the tests of a program as it was, then converted under each of the delegates. Uses the program's own
# functions: PROGRAM_tree NAME [OPTION...], PROGRAM_tests TREE DELEGATE, and PROGRAM_started TREE, a command that takes mutexes.
suites() {
    local program=$1 delegate name option failures=0
    shift
    local -A library_of=([plain]="")
    "${program}_tree" plain
    # A folder that is kept has what the original's tests said.
    [[ -s $work/$program-plain/tested ]] || "${program}_tests" "$work/$program-plain" none | tee "$work/$program-plain/testing"
    [[ ! -f $work/$program-plain/testing ]] || mv "$work/$program-plain/testing" "$work/$program-plain/tested"
    for delegate; do
        way_of "$delegate"
        "${program}_tree" "$name" "$option"
        warns_as_before "$work/$program-plain/build.log" "$work/$program-$name/build.log"
        (cd "$work/$program-$name" && "${program}_started")
        "${program}_tests" "$work/$program-$name" "$delegate"
        # What the original does not pass, either, is for what this build or this machine has not.
        cmp -s "$work/$program-plain/outcome-none" "$work/$program-$name/outcome-$delegate" || failures=$((failures + 1))
    done
    ((failures == 0)) || { echo "FAILED: $failures"; exit 1; }
}
