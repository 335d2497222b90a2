# shellcheck shell=bash
# What the compiler warns of in converted programs and not in the originals. Part of transform-programs.sh.

# warned PROGRAM NAME [OPTION...]: the program is built with more warnings than its own flags may have, in a tree that is called
# warned-NAME; all that the compiler says goes to $work/PROGRAM-warned-NAME.log.
warned() {
    local program=$1 name=warned-$2 tree=$work/$1-warned-$2 ours="" libraries=""
    shift 2
    # Lines of compilers that run at once stay whole.
    export COMPILE_WITH="-Wall -Wextra -Wno-error" MAKEFLAGS=--output-sync
    if [[ $program == memcached ]]; then
        (($#)) && ours=-I$top/crates/capi/include libraries="$library -lm -ldl -pthread"
        memcached_tree "$name" "$ours" "$libraries" "$@"
    else
        "${program}_tree" "$name" "$@"
    fi
    unset COMPILE_WITH MAKEFLAGS
    # Splash-3's programs have two logs each, the other of a build without optional locks.
    find "$tree" \( -name build.log -o -name without.log \) -exec cat {} + >"$work/$program-$name.log"
}

# Programs as they were, converted with what stays a lock holding its delegate, and converted for any delegate.
warnings() {
    local program name failures=0 expected
    local -A library_of=([warned-plain]="")
    for program; do
        "${program}_sources" || { echo "SKIPPED $program: its sources, or what it needs, cannot be had"; continue; }
        warned "$program" plain
        warned "$program" hold --hold
        warned "$program" any --
        expected=
        # radix assigns and uses its times under one condition. gcc looks through a limited number of branches for it, and there are
        # others where the barriers were.
        [[ $program != splash ]] || expected="^radix.c: ‘time[24]’ may be used uninitialized"
        for name in hold any; do
            warns_as_before "$work/$program-warned-plain.log" "$work/$program-warned-$name.log" "$expected"
            echo "$program, $name: $(warnings_of "$work/$program-warned-$name.log" | wc -l) warnings," \
                "as it was: $(warnings_of "$work/$program-warned-plain.log" | wc -l)"
        done
    done
    ((failures == 0)) || { echo "FAILED: $failures"; return 1; }
}
