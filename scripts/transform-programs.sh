#!/usr/bin/env bash
# transform-programs.sh [memcached | from | berkeley | tests | unbound | zstd | check [PACKAGE...]]: programs of Debian, converted by `lockwork transform`.
#
#   memcached   builds it before and after, runs its own tests under several delegates, and measures SET
#   from        profiles it under SET, converts what the profile says is worth it (SHARE percent of the threads' time, WAITED
#               percent of waiting) but for the section at EXCEPT, and compares delegates (RUNS rounds, results in OUT)
#   berkeley    converts Berkeley DB, and compares delegates on transactions in the manner of TPC-C (RUNS rounds, results in OUT)
#   sets CMD    starts memcached by this command, and measures SET: what `from` has compared
#   tests       converts memcached, and runs its test program and TESTS under each of the delegates; `none`: as it was
#   unbound     builds it before and after, and runs its unit tests and its replayed queries (TESTS) under each of the delegates
#   zstd        builds it before and after, and runs its tests of the pool of threads, of streams by several threads and of its command
#   check       counts which sections of programs can be converted; nothing is compiled
#   trees       sets programs up for that, and prints each one's name, version and folder
#
# Sources come from Debian's source packages into a temporary folder, or into WORK (KEEP=1 keeps it); a program whose sources or whose
# build cannot be had is SKIPPED. DELEGATES, TESTS (files below t/; `none`), KINDS of transactions, SECONDS_EACH, THREADS and CLIENTS choose
# what runs, RUNS how often what is measured does (0: not). Needs target/release/liblockwork_c.a and the command, which is $LOCKWORK or
# target/release/lockwork.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD
lockwork=${LOCKWORK:-$top/target/release/lockwork}
library=$top/target/release/liblockwork_c.a
delegates=${DELEGATES:-locked(mcs-stp) cc-synch rcl sanl}
work=${WORK:-$(mktemp -d)}
mkdir -p "$work"
work=$(realpath "$work")
[[ -n ${KEEP:-} ]] || trap 'rm -rf "$work"' EXIT
# One run at a time fills a folder, of programs that are only set up one at a time for each; what is compared only uses it.
[[ ${1-} == sets || ${1-} == transactions || ${1-} == trees ]] || { exec 5>"$work/lock"; flock 5; }

skipped() { echo "SKIPPED $1: $2"; exit 0; }

# Reads apt's lists, its own, which name the sources as well, if they are not there. Where they cannot be had, that holds for a while.
has_lists() {
    local own=$work/apt mirror=${MIRROR:-http://deb.debian.org/debian} suite
    [[ ! -s $own/sources.list ]] || return 0
    [[ -z $(find "$own/unreachable" -mmin -10 2>/dev/null) ]] || return 1
    mkdir -p "$own/lists/partial" "$own/cache/archives/partial"
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    printf 'deb-src %s %s main\ndeb %s %s main\n' "$mirror" "$suite" "$mirror" "$suite" >"$own/first.list"
    if apt_own 120 "$own/first.list" update; then mv "$own/first.list" "$own/sources.list"; else touch "$own/unreachable"; return 1; fi
}

# one_at_a_time NAME COMMAND...: by all runs that share the folder.
one_at_a_time() {
    local lock=$work/lock-$1
    shift
    (flock 6 && "$@") 6>"$lock"
}

# apt_own SECONDS LIST COMMAND...: apt by a list of its own. What does not answer soon counts as not there.
apt_own() {
    local seconds=$1 list=$2 own=$work/apt
    shift 2
    timeout "$seconds" apt-get -q -o Dir::Etc::sourcelist="$list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$own/lists" \
        -o Dir::Cache="$own/cache" -o Acquire::http::Timeout=20 -o Acquire::Retries=1 "$@" >/dev/null 2>&1
}

# archives_of PACKAGE: its sources are in $work/sources.
archives_of() {
    mkdir -p "$work/sources"
    compgen -G "$work/sources/$1_*.orig.tar.*" >/dev/null && return
    one_at_a_time apt has_lists || return 1
    (cd "$work/sources" && one_at_a_time apt apt_own 300 "$work/apt/sources.list" source --download-only "$1")
}

# unpacked PACKAGE TREE [WHOLE]: its source is there, but for what is neither compiled nor configured, unless it is to be whole.
unpacked() {
    local package=$1 tree=$2 archive
    local -a without=(--exclude='*/docs' --exclude='*/doc/html' --exclude='*/lang' --exclude='*/testdata')
    [[ -z ${3-} ]] || without=()
    [[ ! -d $tree ]] || return 0
    archives_of "$package" || return 1
    rm -rf "$tree.part"
    mkdir "$tree.part"
    for archive in "$work/sources/$package"_*.orig.tar.*; do
        [[ $archive == *.asc ]] || tar -C "$tree.part" --strip-components=1 "${without[@]}" -xf "$archive" || return 1
    done
    mv "$tree.part" "$tree"
}

# source_of PACKAGE: its source is unpacked in $work/PACKAGE.
source_of() { unpacked "$1" "$work/$1"; }

# headers_of PACKAGE: its headers and libraries are unpacked in $work/root.
headers_of() {
    mkdir -p "$work/sources" "$work/root"
    [[ ! -f $work/root/$1 ]] || return 0
    one_at_a_time apt has_lists || return 1
    (cd "$work/sources" && one_at_a_time apt apt_own 300 "$work/apt/sources.list" download "$1" && dpkg -x "$1"_*.deb "$work/root") ||
        return 1
    touch "$work/root/$1"
}

# A compiler that notes how each file is compiled, and, with NOTE_ONLY, compiles nothing.
recorder() {
    # Started for each file: the system's own, not what PATH has in front of it, and without what it does not need.
    local python=/usr/bin/python3
    [[ -x $python ]] || python=$(type -P python3)
    echo "#!$python -SE" >"$work/cc"
    cat >>"$work/cc" <<'PYTHON'
import json, os, sys
arguments = sys.argv[1:]
lines = os.environ.get("COMPILE_LINES")
if lines and "-c" in arguments:
    for name in arguments:
        if name.endswith(".c"):
            with open(lines, "a") as to:
                to.write(json.dumps({"directory": os.getcwd(), "file": name, "arguments": ["cc", *arguments]}) + "\n")
made = [arguments[at + 1] for at, option in enumerate(arguments[:-1]) if option in ("-o", "-MF")]
linked = os.environ.get("LINK_WITH", "").split()
if linked and not {"-c", "-E", "-S", "-M", "-MM"} & set(arguments) and any(name.endswith((".c", ".o", ".lo", ".a")) for name in arguments):
    arguments += linked
if os.environ.get("NOTE_ONLY") and (made or "-c" in arguments):
    for name in made or [os.path.basename(name)[:-2] + ".o" for name in arguments if name.endswith(".c")]:
        # A probe of the compiler's options may write to /dev/null, which is to stay as it is.
        if os.path.exists(name) and not os.path.isfile(name):
            continue
        open(name, "a").close()
        os.chmod(name, 0o755)
    sys.exit(0)
os.execvp("gcc", ["gcc", *arguments])
PYTHON
    chmod +x "$work/cc"
}

database() { (echo '['; paste -sd, "$1"; echo ']') >"$2"; }

quiet_make() { timeout 900 make ACLOCAL=: AUTOCONF=: AUTOMAKE=: AUTOHEADER=: "$@"; }

# memcached_tree NAME CFLAGS LIBS [OPTION...]: the tree NAME, converted with these options if there are any, built.
memcached_tree() {
    local name=$1 cflags=$2 libs=$3 tree=$work/memcached-$1
    shift 3
    [[ -x $tree/memcached ]] && return 0
    [[ -d $tree ]] || cp -a "$work/memcached" "$tree"
    (
        cd "$tree"
        ./configure CC="$work/cc" CFLAGS="-O2 -g -I$work/root/usr/include $cflags" \
            LDFLAGS="-L$work/root/usr/lib/$(gcc -print-multiarch)" LIBS="$libs" >configure.log 2>&1
        if (($#)); then
            # What is compiled is known by a build in which nothing is compiled: with assertions first, because a file counts once, and what
            # only assertions name would not be seen without.
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -k memcached-debug >first.log 2>&1 || true
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -k memcached testapp >>first.log 2>&1 || true
            database lines compile_commands.json
            rm -f ./*.o memcached memcached-debug testapp
            /usr/bin/time -f "converted in %e s" "$lockwork" transform -p . --in-place "$@"
        fi
        # Its own flags say -Wall -Werror -pedantic: there is no new warning.
        quiet_make memcached memcached-debug testapp sizes timedrun >build.log 2>&1 || { tail -20 build.log; exit 1; }
    )
}

memcached_tests() {
    local tree=$1 delegate=$2
    local tests=${TESTS:-$(cd "$tree" && echo t/*.t)}
    (
        cd "$tree"
        # Styles of sources and names of packages are no business of these tests.
        if [[ $tests != none ]]; then
            LOCKWORK_DELEGATE=$delegate timeout 1500 prove -Q ${tests//t\/whitespace.t/} >"tests-$delegate.log" 2>&1 || true
            echo "$(basename "$tree") $delegate: $(grep -E '^(Files=|Result:)' "tests-$delegate.log" | tr '\n' ' ')" \
                "failed: $(grep -oE '^t/[^ ]+\.t' "tests-$delegate.log" | sort -u | tr '\n' ' ')"
        fi
        LOCKWORK_DELEGATE=$delegate timeout 300 ./testapp >"testapp-$delegate.log" 2>&1 &&
            echo "  testapp: $(grep -c '^ok' "testapp-$delegate.log") passed" || echo "  testapp: failed"
    )
}

# sets CMD...: SET by connections that each wait for their answers, in requests a second. CMD starts the server with options to come.
sets() {
    local port=$((21000 + RANDOM % 9000)) pid=$work/pid.$$ log=$work/server.$$ server up=
    rm -f "$pid"
    "$@" -u root -l 127.0.0.1 -p "$port" -U 0 -t "${THREADS:-4}" -m 256 -P "$pid" >"$log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && [[ -s $pid ]] && up=1 && break
        sleep 0.05
    done
    [[ -n $up ]] || { cat "$log" >&2; kill "$server" 2>/dev/null; return 1; }
    timeout 120 python3 - "$port" "${SECONDS_EACH:-5}" "${CLIENTS:-4}" <<'PYTHON' || true
import os, socket, sys, time
port, seconds, clients = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
pipes = []
for client in range(clients):
    read, write = os.pipe()
    if os.fork() == 0:
        connection = socket.create_connection(("127.0.0.1", port))
        batch = b"".join(b"set k%d-%d 0 0 32\r\n%s\r\n" % (client, key, b"v" * 32) for key in range(50))
        done, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(batch)
            left = 50 * len(b"STORED\r\n")
            while left:
                answer = connection.recv(left)
                if not answer:
                    sys.exit("the server has gone")
                left -= len(answer)
            done += 50
        os.write(write, b"%d" % done)
        os._exit(0)
    os.close(write)
    pipes.append(read)
total = sum(int(os.read(pipe, 32) or 0) for pipe in pipes)
print(f"{total / seconds:.0f} SET/s")
PYTHON
    kill "$(cat "$pid")" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    # What was said by the server, or by what it was started with, such as a profiler.
    cat "$log"
    rm -f "$pid" "$log"
}

memcached_sets() {
    local tree=$1 delegate=$2
    LOCKWORK_DELEGATE=$delegate sets "$tree/memcached" | sed "s|^|$(basename "$tree") $delegate: |"
}

memcached() {
    source_of memcached || skipped memcached "its source package cannot be fetched"
    headers_of libevent-dev || skipped memcached "libevent-dev cannot be fetched"
    local ours="-I$top/crates/capi/include"
    memcached_tree plain "" ""
    memcached_tree any "$ours" "$library -lm -ldl -pthread" --
    memcached_tree hold "$ours" "$library -lm -ldl -pthread" --hold
    memcached_tests "$work/memcached-plain" none
    for delegate in $delegates; do
        local trees="any hold"
        # Combiners cannot be held.
        [[ $delegate == *-synch || $delegate == fc || $delegate == oyama ]] && trees=any
        for tree in $trees; do memcached_tests "$work/memcached-$tree" "$delegate"; done
    done
    for round in $(seq "${RUNS:-3}"); do
        memcached_sets "$work/memcached-plain" none
        for delegate in $delegates; do
            memcached_sets "$work/memcached-any" "$delegate"
            [[ $delegate == *-synch ]] || memcached_sets "$work/memcached-hold" "$delegate"
        done
    done
}

# RCL's workflow: profile, convert what is worth it, build, compare.
from() {
    source_of memcached || skipped memcached "its source package cannot be fetched"
    headers_of libevent-dev || skipped memcached "libevent-dev cannot be fetched"
    local tree=$work/memcached-from profile=$work/memcached.profile list delegate
    export THREADS=${THREADS:-16} CLIENTS=${CLIENTS:-16}
    # Some of its sections stay locks, so that the delegates have to be ones that can be held.
    delegates=${DELEGATES:-locked(futex) locked(mcs-stp) rcl sanl}
    if [[ ! -x $tree/memcached.before ]]; then
        rm -rf "$tree"
        cp -a "$work/memcached" "$tree"
        cd "$tree"
        ./configure CC="$work/cc" CFLAGS="-O2 -g -fno-omit-frame-pointer -I$work/root/usr/include -I$top/crates/capi/include" \
            LDFLAGS="-L$work/root/usr/lib/$(gcc -print-multiarch)" LIBS="$library -lm -ldl -pthread" >configure.log 2>&1
        COMPILE_LINES=$tree/lines quiet_make memcached-debug >first.log 2>&1
        COMPILE_LINES=$tree/lines quiet_make memcached testapp >>first.log 2>&1
        database lines compile_commands.json
        sets "$lockwork" profile -o "$profile" -- "$tree/memcached"
        echo "By RCL's threshold:"
        "$lockwork" transform --from "$profile" -p . --hold | head -20
        echo "From ${SHARE:-1}% of the time on, with ${WAITED:-0.5}% of waiting:"
        local choice=(--from "$profile" -p . --hold --share "${SHARE:-1}" --waited "${WAITED:-0.5}"
            ${EXCEPT:+--except "$EXCEPT"})
        "$lockwork" transform "${choice[@]}" | tee chosen.txt
        grep -q 'becomes a delegate' chosen.txt || { echo "no mutex becomes a delegate"; exit 0; }
        /usr/bin/time -f "converted in %e s" \
            "$lockwork" transform "${choice[@]}" --in-place 2>&1 | tail -2
        mv memcached memcached.before
        rm -f ./*.o memcached-debug testapp
        quiet_make memcached memcached-debug testapp sizes timedrun >build.log 2>&1 || { tail -20 build.log; exit 1; }
        cd "$top"
    fi
    local tests=${TESTS:-t/cas.t t/evictions.t t/getset.t t/lru.t t/lru-crawler.t t/slabs_reassign.t t/slabs-reassign2.t t/stats.t}
    for delegate in $delegates; do
        TESTS=$tests memcached_tests "$tree" "$delegate"
    done
    list=$(tr ' ' , <<<"$delegates")
    # Results name no place of this machine, as long as the programs lie below this directory.
    tree=${tree#"$top/"}
    WORK=$work KEEP=1 "$lockwork" compare --original "scripts/transform-programs.sh sets $tree/memcached.before" \
        --locks "${LOCKS:-pthread}" --delegates "$list" --metric '+SET=(\d+) SET/s' --runs "${RUNS:-6}" \
        --commit "$(git describe --always --dirty)" \
        --out "${OUT:-$work/report}" -- scripts/transform-programs.sh sets "$tree/memcached"
}

# berkeley_tree NAME: Berkeley DB's library in $work/db-NAME; `after` is converted.
berkeley_tree() {
    local name=$1 tree=$work/db-$1 ours=
    [[ -x $tree/tpcc ]] && return 0
    rm -rf "$tree"
    cp -a "$work/db5.3" "$tree"
    (
        cd "$tree"
        if [[ $name == after ]]; then
            ours=-I$top/crates/capi/include
            # Each exclusive mutex has a delegate; macros that stay as they are take it as a lock.
            cp "$top/scripts/berkeley-db/lockwork_db.h" src/dbinc/
            sed -i 's|^\tpid_t\t\tpid;\t\t/\* Process owning mutex \*/|\tlockwork_delegate_t delegate;\n\tint is_delegate;\n&|
                0,/^#define\t_DB_MUTEX_INT_H_/s||#define\t_DB_MUTEX_INT_H_\n#include <lockwork.h>|' src/dbinc/mutex_int.h
            sed -i '0,/^#define\tMUTEX_LOCK(env, mutex) do {/s||#include "dbinc/lockwork_db.h"\n&|' src/dbinc/mutex.h
        fi
        cd build_unix
        ../dist/configure CC=gcc --disable-replication --disable-shared CFLAGS="-O2 $ours" >configure.log 2>&1
        if [[ $name == after ]]; then
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines timeout 900 make -k CC="$work/cc" libdb-5.3.la >first.log 2>&1 || true
            database "$tree/lines" "$tree/compile_commands.json"
            timeout 300 make clean >>first.log 2>&1
            /usr/bin/time -f "converted in %e s" \
                "$lockwork" transform -p "$tree" --in-place --macros "$top/scripts/berkeley-db/macros"
        fi
        timeout 1500 make -j2 libdb-5.3.la >build.log 2>&1 || { tail -20 build.log; exit 1; }
        # Its own archive is empty where no shared library is made.
        ar rcs "$tree/libdb.a" ./*.o
        gcc -O2 -Wall -Wextra -I. "$top/scripts/berkeley-db/tpcc.c" "$tree/libdb.a" ${ours:+"$library"} -lpthread -lm -ldl \
            -o "$tree/tpcc"
    )
}

# Berkeley DB before and after: what is read must be the same; then the comparison. Some of its sections stay locks, so that the
# delegates have to be ones that can be held.
berkeley() {
    source_of db5.3 || skipped db5.3 "its source package cannot be fetched"
    local name delegate kind expected found
    delegates=${DELEGATES:-locked(futex) locked(cst-mutex) rcl sanl}
    for name in before after; do berkeley_tree "$name"; done
    # Warnings that conversion has added.
    name=$(diff <(grep -c 'warning:' "$work/db-before/build_unix/build.log") <(grep -c 'warning:' "$work/db-after/build_unix/build.log")) ||
        echo "warnings differ: $name"
    # A delegate of no name ends the program: otherwise no section is run by one.
    if LOCKWORK_DELEGATE=no-such transactions "$work/db-after/tpcc" stock-level 1 >/dev/null 2>&1; then
        echo "FAILED: no mutex of Berkeley DB is a delegate"
        exit 1
    fi
    for kind in ${KINDS:-stock-level order-status}; do
        # So long that the first client has read what is compared also where a server has no CPU of its own.
        expected=$(SECONDS_EACH=8 transactions "$work/db-before/tpcc" "$kind" 8 | grep -o 'first: [0-9]*')
        for delegate in $delegates; do
            found=$(LOCKWORK_DELEGATE=$delegate SECONDS_EACH=8 transactions "$work/db-after/tpcc" "$kind" 8 | grep -o 'first: [0-9]*')
            [[ $found == "$expected" ]] || { echo "FAILED: $kind under $delegate finds $found, not $expected"; exit 1; }
        done
        echo "$kind: the same is read under all delegates"
    done
    [[ ${RUNS:-6} != 0 ]] || return 0
    for kind in ${KINDS:-stock-level order-status}; do
        WORK=$work KEEP=1 "$lockwork" compare \
            --original "scripts/transform-programs.sh transactions ${work#"$top/"}/db-before/tpcc $kind {threads}" \
            --locks "${LOCKS:-pthread}" --delegates "$(tr ' ' , <<<"$delegates")" --threads "${CLIENTS:-2,16}" \
            --metric '+tps=transactions/sec: ([\d.]+)' --runs "${RUNS:-6}" --commit "$(git describe --always --dirty)" \
            --out "${OUT:-$work/report}/$kind" \
            -- scripts/transform-programs.sh transactions "${work#"$top/"}/db-after/tpcc" "$kind" '{threads}'
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

# noted PACKAGE SETUP COMMAND: its tree, $work/PACKAGE-check, is set up, and how COMMAND compiles it is noted. Says why if not.
noted() {
    local package=$1 tree=$work/$1-check
    [[ ! -s $tree/compile_commands.json ]] || return 0
    rm -rf "$tree"
    unpacked "$package" "$tree" || { echo "SKIPPED $package: its source package cannot be fetched"; return 1; }
    (cd "$tree" && CC=gcc timeout 600 bash -c "$2" >setup.log 2>&1) ||
        { echo "SKIPPED $package: it cannot be configured: $(tail -1 "$tree/setup.log")"; return 1; }
    # What is linked of empty objects fails; what was noted until then counts.
    (cd "$tree" && NOTE_ONLY=1 COMPILE_LINES=$tree/lines CC=$work/cc timeout 600 bash -c "$3" >build.log 2>&1) || true
    [[ -s $tree/lines ]] || { echo "SKIPPED $package: nothing was compiled: $(tail -1 "$tree/build.log")"; return 1; }
    # Objects that are empty are no objects.
    find "$tree" \( -name '*.o' -o -name '*.lo' \) -empty -delete
    database "$tree/lines" "$tree/noted"
    mv "$tree/noted" "$tree/compile_commands.json"
}

# noted_package PACKAGE: the same by name.
noted_package() {
    local root=$work/root/usr
    case $1 in
        memcached)
            headers_of libevent-dev || { echo "SKIPPED memcached: libevent-dev cannot be fetched"; return 1; }
            noted memcached "./configure CPPFLAGS=-I$root/include LDFLAGS=-L$root/lib/$(gcc -print-multiarch)" \
                'make -k ACLOCAL=: AUTOCONF=: AUTOMAKE=: AUTOHEADER=: CC="$CC" memcached-debug memcached testapp' ;;
        redis) noted redis 'cd src && sh mkreleasehdr.sh' 'make -k -C src CC="$CC" MALLOC=libc redis-server' ;;
        unbound)
            { headers_of libexpat1-dev && headers_of libssl-dev; } || { echo "SKIPPED unbound: libexpat1-dev and libssl-dev cannot be fetched"; return 1; }
            noted unbound "./configure --with-libexpat=$root --with-ssl=$root CPPFLAGS=-I$root/include/$(gcc -print-multiarch) LDFLAGS=-L$root/lib/$(gcc -print-multiarch)" \
                'make -k CC="$CC"' ;;
        libzstd) noted libzstd true 'make -C lib CC="$CC" lib-mt; make -C programs CC="$CC" HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 zstd' ;;
        sqlite3) noted sqlite3 './configure --disable-tcl && make sqlite3.c' '"$CC" -c -DSQLITE_THREADSAFE=1 sqlite3.c -o sqlite3.o' ;;
        db5.3) noted db5.3 'cd build_unix && ../dist/configure --disable-replication' 'cd build_unix && make -k CC="$CC" libdb-5.3.la' ;;
        fuse3) noted fuse3 'touch config.h fuse_config.h libfuse_config.h' 'for file in lib/*.c; do [[ $file == */mount_bsd.c ]] || "$CC" -c -D_GNU_SOURCE -DFUSE_USE_VERSION=314 -DHAVE_CONFIG_H -DPACKAGE_VERSION="\"3\"" -DFUSERMOUNT_DIR="\"/\"" -DLINUX -DHAVE_FORK -Iinclude -Ilib -I. "$file" -o "${file%.c}.o"; done' ;;
        *) echo "$0: does not know $1" >&2; exit 2 ;;
    esac
}

# trees PACKAGE...: where each one's tree is that is ready to be analysed, with its version.
trees() {
    local package version
    local -a archives
    for package in "$@"; do
        one_at_a_time "$package" noted_package "$package" || continue
        archives=("$work/sources/${package}"_*.orig.tar.*)
        version=${archives[0]##*/"${package}"_}
        echo "$package ${version%.orig.tar.*} $work/$package-check"
    done
}

check() {
    local package hold tree begin
    local -a macros
    for package in "$@"; do
        noted_package "$package" || continue
        tree=$work/$package-check
        macros=()
        [[ $package != db5.3 ]] || macros=(--macros "$top/scripts/berkeley-db/macros")
        for hold in "" --hold; do
            begin=$SECONDS
            timeout 600 "$lockwork" transform -p "$tree" --check $hold "${macros[@]}" >"$tree/check$hold" 2>"$tree/check.log" ||
                { echo "FAILED $package: $(tail -1 "$tree/check.log")"; return 1; }
            echo "$package${hold:+ $hold}: $(tail -1 "$tree/check$hold"); $((SECONDS - begin)) s"
        done
    done
}

# The converted memcached under each of the delegates.
tests() {
    source_of memcached || skipped memcached "its source package cannot be fetched"
    headers_of libevent-dev || skipped memcached "libevent-dev cannot be fetched"
    local delegate name option
    for delegate in $delegates; do
        if [[ $delegate == none ]]; then
            memcached_tree plain "" ""
            memcached_tests "$work/memcached-plain" none
            continue
        fi
        name=hold option=--hold
        # Combiners cannot be held.
        [[ $delegate == *-synch || $delegate == fc || $delegate == oyama ]] && name=any option=--
        memcached_tree "$name" "-I$top/crates/capi/include" "$library -lm -ldl -pthread" "$option"
        memcached_tests "$work/memcached-$name" "$delegate"
    done
}

# transformed TREE [OPTION...]: the program in a tree is converted; what COMPILE_LINES noted says how it is compiled.
transformed() {
    local tree=$1
    shift
    database "$tree/lines" "$tree/compile_commands.json"
    /usr/bin/time -f "$(basename "$tree"): converted in %e s" "$lockwork" transform -p "$tree" --in-place "$@" >"$tree/converted.log"
    tail -1 "$tree/converted.log"
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

# uses_delegates COMMAND...: a delegate of no name ends a program in which any mutex is one.
uses_delegates() {
    if LOCKWORK_DELEGATE=no-such timeout 300 "$@" >/dev/null 2>&1; then
        echo "FAILED: no mutex is a delegate in $(basename "$1")"
        exit 1
    fi
}

# unbound_tree NAME [OPTION...]: unbound in $work/unbound-NAME, converted with these options if there are any, with its test programs.
unbound_tree() {
    local name=$1 tree=$work/unbound-$1 root=$work/root/usr multiarch
    shift
    [[ ! -x $tree/testbound ]] || return 0
    rm -rf "$tree"
    unpacked unbound "$tree" whole || return 1
    multiarch=$(gcc -print-multiarch)
    (
        cd "$tree"
        CC=$work/cc timeout 600 ./configure --disable-flto --with-libexpat="$root" --with-ssl="$root" \
            CPPFLAGS="-I$root/include/$multiarch -I$top/crates/capi/include" LDFLAGS="-L$root/lib/$multiarch" >configure.log 2>&1
        if (($#)); then
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -k all unittest testbound >first.log 2>&1 || true
            timeout 300 make clean >>first.log 2>&1
            transformed "$tree" "$@"
        fi
        LINK_WITH="${library_of[$name]-$library -lm -ldl -pthread}" quiet_make -j2 all unittest testbound >build.log 2>&1 ||
            { tail -20 build.log; exit 1; }
    )
}

# unbound's unit tests, and queries that it answers by what its test data say (TESTS: some of these files).
unbound_tests() {
    local tree=$1 delegate=$2 name passed=0 failed=
    local -a tests
    cd "$tree"
    echo "$(basename "$tree") $delegate:"
    passed "unit tests" "$delegate" "unittest-$delegate.log" ./unittest
    passed "testbound's own" "$delegate" "testbound-$delegate.log" ./testbound -s
    read -ra tests <<<"${TESTS:-$(echo testdata/*.rpl)}"
    for name in "${tests[@]}"; do
        if LOCKWORK_DELEGATE=$delegate timeout 60 ./testbound -p "$name" >"replay-$delegate.log" 2>&1; then
            passed=$((passed + 1))
        else
            failed+=" $(basename "$name" .rpl)"
        fi
    done
    echo "  replays: $passed passed, failed:${failed:- none}"
    echo "$failed" >"failed-$delegate"
    cd "$top"
}

unbound() {
    archives_of unbound || skipped unbound "its source package cannot be fetched"
    { headers_of libexpat1-dev && headers_of libssl-dev; } || skipped unbound "libexpat1-dev and libssl-dev cannot be fetched"
    local delegate name option failures=0
    local -A library_of=([plain]="")
    unbound_tree plain
    unbound_tests "$work/unbound-plain" none
    for delegate in $delegates; do
        name=hold option=--hold
        # Combiners cannot be held.
        [[ $delegate == *-synch || $delegate == fc || $delegate == oyama ]] && name=any option=--
        unbound_tree "$name" "$option"
        (cd "$work/unbound-$name" && uses_delegates ./testbound -p testdata/autotrust_init.rpl)
        unbound_tests "$work/unbound-$name" "$delegate"
        # Replays that the original does not pass, either, are for what this build has not.
        cmp -s "$work/unbound-plain/failed-none" "$work/unbound-$name/failed-$delegate" || failures=$((failures + 1))
    done
    ((failures == 0)) || { echo "FAILED: $failures"; exit 1; }
}

# zstd_tree NAME [OPTION...]: zstd in $work/zstd-NAME, converted with these options if there are any, with its test programs.
zstd_tree() {
    local name=$1 tree=$work/zstd-$1
    shift
    [[ ! -x $tree/tests/zstreamtest ]] || return 0
    rm -rf "$tree"
    unpacked libzstd "$tree" whole || return 1
    (
        cd "$tree"
        if (($#)); then
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -C lib CC="$work/cc" lib-mt >first.log 2>&1 || true
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -C programs CC="$work/cc" HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 zstd \
                >>first.log 2>&1 || true
            timeout 300 make clean >>first.log 2>&1 || true
            find . \( -name '*.o' -o -name obj \) -prune -exec rm -rf {} +
            transformed "$tree" "$@"
        fi
        # Its debugging builds have mutexes of another type, each in memory of its own.
        export LINK_WITH="${library_of[$name]-$library -lm -ldl -pthread}"
        { quiet_make -j2 -C programs CC="$work/cc" MOREFLAGS="-I$top/crates/capi/include" HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 zstd &&
            quiet_make -j2 -C tests CC="$work/cc" DEBUGLEVEL=0 MOREFLAGS="-I$top/crates/capi/include" poolTests zstreamtest fuzzer \
                datagen; } >build.log 2>&1 || { tail -20 build.log; exit 1; }
    )
}

zstd_tests() {
    local tree=$1 delegate=$2 level found
    cd "$tree/tests"
    echo "$(basename "$tree") $delegate:"
    passed "pool of threads" "$delegate" "pool-$delegate.log" ./poolTests
    passed "streams by several threads" "$delegate" "stream-$delegate.log" ./zstreamtest --newapi -t1 -i"${ROUNDS:-1500}" -s4321
    passed "fuzzer" "$delegate" "fuzzer-$delegate.log" ./fuzzer -i"${ROUNDS:-1500}" -s4321
    # What two threads compress is the same whatever their order.
    for level in 1 5 19; do
        found=$({ ./datagen -g20M -s7 | LOCKWORK_DELEGATE=$delegate timeout 300 ../programs/zstd -"$level" -T4 -B512K --long=20 -c |
            tee "compressed-$delegate" | md5sum; } 2>&1) || true
        LOCKWORK_DELEGATE=$delegate timeout 300 ../programs/zstd -dc <"compressed-$delegate" | cmp -s - <(./datagen -g20M -s7) ||
            found="not what it was"
        echo "  level $level: $found"
        rm -f "compressed-$delegate"
        echo "$level $found" >>"sums-$delegate.new"
    done
    mv "sums-$delegate.new" "sums-$delegate"
    cd "$top"
}

zstd() {
    archives_of libzstd || skipped libzstd "its source package cannot be fetched"
    local delegate name option failures=0
    local -A library_of=([plain]="")
    zstd_tree plain
    zstd_tests "$work/zstd-plain" none
    for delegate in $delegates; do
        name=hold option=--hold
        # Combiners cannot be held.
        [[ $delegate == *-synch || $delegate == fc || $delegate == oyama ]] && name=any option=--
        zstd_tree "$name" "$option"
        uses_delegates "$work/zstd-$name/tests/poolTests"
        zstd_tests "$work/zstd-$name" "$delegate"
        cmp -s "$work/zstd-plain/tests/sums-none" "$work/zstd-$name/tests/sums-$delegate" || failures=$((failures + 1))
    done
    ((failures == 0)) || { echo "FAILED: $failures"; exit 1; }
}

case ${1:-memcached} in
    memcached) [[ -f $library ]] || skipped memcached "there is no $library"; recorder; memcached ;;
    from) [[ -f $library ]] || skipped memcached "there is no $library"; recorder; from ;;
    tests) [[ -f $library ]] || skipped memcached "there is no $library"; recorder; tests ;;
    berkeley) [[ -f $library ]] || skipped db5.3 "there is no $library"; recorder; berkeley ;;
    unbound) [[ -f $library ]] || skipped unbound "there is no $library"; recorder; unbound ;;
    zstd) [[ -f $library ]] || skipped libzstd "there is no $library"; recorder; zstd ;;
    sets) shift; sets "$@" ;;
    transactions) shift; transactions "$@" ;;
    check)
        shift
        recorder
        (($#)) || set -- memcached redis unbound libzstd sqlite3 db5.3 fuse3
        check "$@" ;;
    trees) shift; recorder; trees "$@" ;;
    *) echo "usage: $0 [memcached | from | berkeley | tests | unbound | zstd | sets CMD... | check [PACKAGE...] | trees PACKAGE...]" >&2; exit 2 ;;
esac
