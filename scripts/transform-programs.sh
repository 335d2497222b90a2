#!/usr/bin/env bash
# transform-programs.sh [memcached | from | berkeley | berkeley-tests | sections | tests | unbound | zstd | redis | fuse3 | splash |
# tsan [PROGRAM...] | warnings [PROGRAM...] | check [PACKAGE...]]: programs of Debian, and Splash-3, converted by `lockwork transform`.
#
#   memcached   builds it before and after, runs its own tests under several delegates, and measures SET
#   from        goes RCL's way by `lockwork delegate`: profiles it under SET, converts what the profile says is worth it (SHARE percent of
#               the threads' time, WAITED percent of waiting) but for the section at EXCEPT, and compares (RUNS rounds, results in OUT)
#   berkeley    converts Berkeley DB, and compares delegates on transactions in the manner of TPC-C (RUNS rounds, results in OUT)
#   berkeley-tests  converts it, and runs those of its C tests that it passes itself
#   sections    profiles Berkeley DB with POSIX's mutexes, and makes sections for `lockwork sim --sections` of that (results in OUT)
#   passes PROGRAM  runs memcached's TESTS and its test program: what `from` tests
#   sets CMD    starts memcached by this command, and measures SET: what `from` has compared
#   tests       converts memcached, and runs its test program and TESTS under each of the delegates; `none`: as it was
#   unbound     builds it before and after, and runs its unit tests and its replayed queries (TESTS) under each of the delegates
#   zstd        builds it before and after, and runs its tests of the pool of threads, of streams by several threads and of its command
#   redis       builds it before and after, and runs those of its tests that use its locks, some of them with threads for clients
#   splash      builds Splash-3 (SPLASH: a folder with its sources) before and after, with its optional locks and without, and compares
#               what small problems come to under each of the delegates; less than 95% of its sections as closures is a failure
#   fuse3       builds it before and after, and runs its own tests, which mount file systems
#   tsan [PROGRAM...]  builds all of them with ThreadSanitizer, before and after, and compares what that reports of them under each of the
#               delegates: a race between functions that have none in the original is a failure
#   warnings [PROGRAM...]  builds all of them before and after with -Wall -Wextra: a new warning is a failure
#   check       counts which sections of programs can be converted; nothing is compiled
#   trees       sets programs up for that, and prints each one's name, version and folder
#
# Sources come from Debian's source packages into a temporary folder, or into WORK (KEEP=1 keeps it); a program whose sources or whose
# build cannot be had is SKIPPED. DELEGATES, TESTS (files below t/; `none`), KINDS of transactions, SECONDS_EACH, THREADS and CLIENTS choose
# what runs, RUNS how often what is measured does (0: not). Needs the library, $LIBRARY or target/release/liblockwork_c.a, and the command,
# $LOCKWORK or target/release/lockwork. The parts for each program are in scripts/transform.
set -euo pipefail
# ThreadSanitizer wants addresses where it expects them.
[[ ${1-} != tsan || $(cat /proc/$$/personality) == *4???? ]] || exec setarch -R "$0" "$@"
# What compilers say is compared, and they quote by the locale.
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/.."
top=$PWD
lockwork=${LOCKWORK:-$top/target/release/lockwork}
library=${LIBRARY:-$top/target/release/liblockwork_c.a}
programs=(memcached redis unbound zstd berkeley splash fuse3)
delegates=${DELEGATES:-locked(mcs-stp) cc-synch rcl sanl}
work=${WORK:-$(mktemp -d)}
mkdir -p "$work"
work=$(realpath "$work")
[[ -n ${KEEP:-} ]] || trap 'rm -rf "$work"' EXIT
# One run at a time fills a folder, of programs that are only set up one at a time for each; what is compared only uses it.
[[ ${1-} == sets || ${1-} == passes || ${1-} == transactions || ${1-} == trees ]] || { exec 5>"$work/lock"; flock 5; }

skipped() { echo "SKIPPED $1: $2"; exit 0; }

# ready PACKAGE: what a converted program is linked with is there, and how it is compiled will be noted.
ready() {
    [[ -f $library ]] || skipped "$1" "there is no $library"
    recorder
}

for part in sources suites memcached berkeley-db unbound zstd redis fuse3 splash check tsan warnings; do
    # shellcheck source=/dev/null
    . "$top/scripts/transform/$part.sh"
done

case ${1:-memcached} in
    memcached) ready memcached; memcached ;;
    from) ready memcached; from ;;
    tests) ready memcached; tests ;;
    berkeley) ready db5.3; berkeley ;;
    unbound) ready unbound; unbound ;;
    redis) ready redis; redis ;;
    splash) ready splash; splash ;;
    zstd) ready libzstd; zstd ;;
    fuse3) ready fuse3; fuse3 ;;
    warnings)
        shift
        ready warnings
        (($#)) || set -- "${programs[@]}"
        warnings "$@" ;;
    tsan)
        shift
        ready tsan
        (($#)) || set -- "${programs[@]}"
        tsan "$@" ;;
    sets) shift; sets "$@" ;;
    passes) passes "$2" ;;
    berkeley-tests) ready db5.3; berkeley_tests ;;
    sections) ready db5.3; sections ;;
    transactions) shift; transactions "$@" ;;
    check)
        shift
        recorder
        (($#)) || set -- memcached redis unbound libzstd sqlite3 db5.3 fuse3
        check "$@" ;;
    trees) shift; recorder; trees "$@" ;;
    *) echo "usage: $0 [memcached | from | berkeley | berkeley-tests | sections | tests | unbound | zstd | redis | fuse3 | splash | tsan [PROGRAM...] | warnings [PROGRAM...] | sets CMD... | passes PROGRAM | check [PACKAGE...] | trees PACKAGE...]" >&2; exit 2 ;;
esac
