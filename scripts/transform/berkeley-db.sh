# shellcheck shell=bash
# Berkeley DB, whose mutexes are numbers, and transactions on it. Part of transform-programs.sh.

berkeley_sources() { source_of db5.3; }

# berkeley_tree NAME [OPTION...]: Berkeley DB's library in $work/berkeley-NAME, converted with these options if there are any; `posix` has
# POSIX's mutexes, which can be recorded, and `tsan-...` has them for ThreadSanitizer, which does not know those written in assembler.
berkeley_tree() {
    local name=$1 tree=$work/berkeley-$1 ours="" flags=-O2
    local -a options=(--disable-replication --disable-shared)
    shift
    [[ -x $tree/tpcc ]] && return 0
    rm -rf "$tree"
    cp -a "$work/db5.3" "$tree"
    (
        cd "$tree"
        if (($#)); then
            ours=-I$top/crates/capi/include
            # Each exclusive mutex has a delegate; macros that stay as they are take it as a lock.
            cp "$top/scripts/berkeley-db/lockwork_db.h" src/dbinc/
            sed -i 's|^\tpid_t\t\tpid;\t\t/\* Process owning mutex \*/|\tlockwork_delegate_t delegate;\n\tint is_delegate;\n&|
                0,/^#define\t_DB_MUTEX_INT_H_/s||#define\t_DB_MUTEX_INT_H_\n#include <lockwork.h>|' src/dbinc/mutex_int.h
            sed -i '0,/^#define\tMUTEX_LOCK(env, mutex) do {/s||#include "dbinc/lockwork_db.h"\n&|' src/dbinc/mutex.h
        fi
        cd build_unix
        case $name in
            posix) options+=(--with-mutex=POSIX/pthreads) flags="-O2 -g -fno-omit-frame-pointer" ;;
            tsan-*) options+=(--with-mutex=POSIX/pthreads --disable-atomicsupport) ;;
        esac
        ../dist/configure CC="$work/cc" "${options[@]}" CFLAGS="$flags $ours" >configure.log 2>&1
        if (($#)); then
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines timeout 900 make -k libdb-5.3.la >first.log 2>&1 || true
            timeout 300 make clean >>first.log 2>&1
            transformed "$tree" --macros "$top/scripts/berkeley-db/macros" "$@"
        fi
        timeout 1500 make -j2 libdb-5.3.la >build.log 2>&1 || { tail -20 build.log; exit 1; }
        # Its own archive is empty where no shared library is made.
        ar rcs "$tree/libdb.a" ./*.o
        # shellcheck disable=SC2086
        "$work/cc" $flags -Wall -Wextra -I. "$top/scripts/berkeley-db/tpcc.c" "$tree/libdb.a" ${ours:+"$library"} -lpthread -lm -ldl \
            -o "$tree/tpcc"
    )
}

berkeley_started() {
    mkdir -p started
    uses_delegates ./tpcc started stock-level 1 1
}

# Berkeley DB before and after: what is read must be the same; then the comparison. Some of its sections stay locks, so that the
# delegates have to be ones that can be held.
berkeley() {
    source_of db5.3 || skipped db5.3 "its source package cannot be fetched"
    local delegate kind expected found failures=0
    delegates=${DELEGATES:-locked(futex) locked(cst-mutex) rcl sanl}
    berkeley_tree before
    berkeley_tree after --
    warns_as_before "$work/berkeley-before/build_unix/build.log" "$work/berkeley-after/build_unix/build.log"
    ((failures == 0)) || exit 1
    (cd "$work/berkeley-after" && berkeley_started)
    for kind in ${KINDS:-stock-level order-status}; do
        expected=$(SECONDS_EACH=8 transactions "$work/berkeley-before/tpcc" "$kind" 8 | grep -o 'first: [0-9]*')
        for delegate in $delegates; do
            found=$(LOCKWORK_DELEGATE=$delegate SECONDS_EACH=8 transactions "$work/berkeley-after/tpcc" "$kind" 8 | grep -o 'first: [0-9]*')
            [[ $found == "$expected" ]] || { echo "FAILED: $kind under $delegate finds $found, not $expected"; exit 1; }
        done
        echo "$kind: the same is read under all delegates"
    done
    [[ ${RUNS:-6} != 0 ]] || return 0
    for kind in ${KINDS:-stock-level order-status}; do
        WORK=$work KEEP=1 "$lockwork" compare \
            --original "scripts/transform-programs.sh transactions ${work#"$top/"}/berkeley-before/tpcc $kind {threads}" \
            --locks "${LOCKS:-pthread}" --delegates "$(tr ' ' , <<<"$delegates")" --threads "${CLIENTS:-2,16}" \
            --metric '+tps=transactions/sec: ([\d.]+)' --runs "${RUNS:-6}" --commit "$(git describe --always --dirty)" \
            --out "${OUT:-$work/report}/$kind" \
            -- scripts/transform-programs.sh transactions "${work#"$top/"}/berkeley-after/tpcc" "$kind" '{threads}'
    done
}

# What transactions of each kind do with Berkeley DB's locks, as sections for `lockwork sim --sections`: OUT/KIND/sections.toml. RCL's
# authors count five lines of memory in a section of Berkeley DB's (LINES).
sections() {
    source_of db5.3 || skipped db5.3 "its source package cannot be fetched"
    local kind tps cpu seconds=${SECONDS_EACH:-8} out=${OUT:-$work/sections} home
    berkeley_tree posix
    for kind in ${KINDS:-stock-level order-status}; do
        mkdir -p "$out/$kind"
        # What a transaction computes is measured unrecorded, what it locks recorded.
        home=$(mktemp -d)
        /usr/bin/time -o "$work/cpu" -f '%U %S' timeout 120 "$work/berkeley-posix/tpcc" "$home" "$kind" 2 "$seconds" >"$work/plain"
        rm -rf "$home"
        home=$(mktemp -d)
        "$lockwork" profile --format json -o "$work/$kind.profile" -- timeout 120 "$work/berkeley-posix/tpcc" "$home" "$kind" 2 "$seconds" \
            >"$work/recorded"
        rm -rf "$home"
        tps() { sed -n 's/.*transactions\/sec: \([0-9.]*\).*/\1/p' "$1"; }
        sed -n '/^{/,$p' "$work/recorded" >"$work/$kind.json"
        operations=$(awk -v tps="$(tps "$work/recorded")" -v seconds="$seconds" 'BEGIN { printf "%.0f", tps * seconds }')
        cpu=$(awk -v plain="$(tps "$work/plain")" -v recorded="$(tps "$work/recorded")" '{ print ($1 + $2) * recorded / plain }' "$work/cpu")
        scripts/sections-of-profile.py "$work/$kind.json" "$cpu" "$operations" "${LINES:-5}" >"$out/$kind/sections.toml"
        echo "$kind: $(tps "$work/plain") transactions a second, $(tps "$work/recorded") recorded; $(head -2 "$out/$kind/sections.toml" | tail -1)"
    done
}

# Berkeley DB's own C tests that its library passes without replication, before and after. Environments that processes share have no
# delegates, but the same code; of these tests DbTuner and EnvMethod have environments of one process.
berkeley_tests() {
    source_of db5.3 || skipped db5.3 "its source package cannot be fetched"
    local name delegate suite home passed failed
    delegates=${DELEGATES:-locked(futex) locked(cst-mutex) rcl sanl}
    berkeley_tree before
    berkeley_tree after --
    for name in before after; do
        (
            cd "$work/berkeley-$name/build_unix"
            # Two of the files define the same name.
            gcc -O2 -w -fcommon -Wl,-z,muldefs -I. -I../src -I../test/c/cutest -I../test/c/suites -I../test/c/common \
                -I"$top/crates/capi/include" ../test/c/cutest/*.c ../test/c/suites/*.c ../libdb.a "$library" -lpthread -lm -ldl -o ../cutest
        )
    done
    for delegate in none $delegates; do
        name=after passed=0 failed=
        [[ $delegate != none ]] || name=before
        for suite in DbTuner DbHotBackup Encryption EnvConfig EnvMethod KeyExistErrorReturn Partial Channel; do
            home=$(mktemp -d)
            if (cd "$home" && LOCKWORK_DELEGATE=$delegate timeout 120 "$work/berkeley-$name/cutest" -s "Test$suite") >"$work/cutest.log" 2>&1; then
                passed=$((passed + $(grep -oE 'OK \([0-9]+' "$work/cutest.log" | grep -oE '[0-9]+')))
            else
                failed+=" $suite"
            fi
            rm -rf "$home"
        done
        echo "berkeley-$name $delegate: $passed passed, failed:${failed:- none}"
        [[ -z $failed ]] || exit 1
    done
}

# transactions PROGRAM KIND CLIENTS: in an environment of its own.
transactions() {
    local home status=0
    home=$(mktemp -d)
    timeout 120 "$1" "$home" "$2" "$3" "${SECONDS_EACH:-1}" || status=$?
    rm -rf "$home"
    return $status
}
