# shellcheck shell=bash
# Splash-3: which of its sections become closures, and whether its programs compute what they did. Part of transform-programs.sh.

splash_commit=e35efba59688a585275d19a16bc6f9371da978e0
splash_programs=(apps/barnes apps/fmm apps/ocean/contiguous_partitions apps/ocean/non_contiguous_partitions apps/radiosity apps/raytrace
    apps/volrend apps/water-nsquared apps/water-spatial kernels/cholesky kernels/fft kernels/lu/contiguous_blocks
    kernels/lu/non_contiguous_blocks kernels/radix)

# splash_sources: Splash-3 is in $work/splash, from the folder SPLASH or from its repository. Its macros are expanded once.
splash_sources() {
    local tree=$work/splash
    type -P m4 >/dev/null || return 1
    [[ ! -d $tree/codes ]] || return 0
    rm -rf "$tree.part"
    if [[ -n ${SPLASH-} ]]; then
        cp -a "$SPLASH" "$tree.part"
    else
        timeout 300 git clone -q https://github.com/SakalisC/Splash-3 "$tree.part" 2>/dev/null &&
            git -C "$tree.part" checkout -q "$splash_commit" || return 1
    fi
    # What macros are expanded to is kept: make would delete it.
    sed -i 's/^%\.o: %\.c/.SECONDARY:\n&/' "$tree.part/codes/Makefile.config"
    mv "$tree.part" "$tree"
}

splash_target() { sed -n 's/^TARGET = *//p' Makefile; }

# splash_tree NAME [OPTION...]: its programs in $work/splash-NAME, converted with these options if there are any, each built with its
# optional locks, and without them of the same files.
splash_tree() {
    local name=$1 tree=$work/splash-$1 program ours= target
    shift
    [[ ! -f $tree/built ]] || return 0
    rm -rf "$tree"
    cp -a "$work/splash" "$tree"
    (($#)) && ours="-I$top/crates/capi/include"
        for program in "${splash_programs[@]}"; do
        (
            cd "$tree/codes/$program"
            if [[ -n $ours ]]; then
                target=$(splash_target)
                NOTE_ONLY=1 COMPILE_LINES=$PWD/lines quiet_make -k CC="$work/cc" >note.log 2>&1 || true
                # Nothing was compiled, so that archives have no objects, either, and what programs would have written is empty.
                find . \( -name '*.o' -o -name '*.a' \) -delete
                rm -rf "$target" libtiff
                [[ ! -d $work/splash/codes/$program/libtiff ]] || cp -a "$work/splash/codes/$program/libtiff" .
                database lines compile_commands.json
                "$lockwork" transform -p . --in-place "$@" >converted.log 2>&1
                # A file that is older than a header, which was written last, would be made of its original again.
                find . -name '*.c' -exec touch {} +
                echo "  $program: $(tail -1 converted.log | sed 's/^lockwork: .* written; //')"
            fi
            target=$(splash_target)
            [[ ! -d libtiff ]] || quiet_make -C libtiff >"$tree/libtiff.log" 2>&1
            LINK_WITH="${ours:+$library -lm -ldl -pthread}" quiet_make CC="$work/cc $ours" >build.log 2>&1 ||
                { echo "FAILED: $program is not built: $(grep -m1 error build.log)"; exit 1; }
            mv "$target" "$target.with"
            rm -f ./*.o
            LINK_WITH="${ours:+$library -lm -ldl -pthread}" quiet_make CC="$work/cc $ours -DWITH_NO_OPTIONAL_LOCKS" >without.log 2>&1 ||
                { echo "FAILED: $program is not built without optional locks: $(grep -m1 error without.log)"; exit 1; }
            mv "$target" "$target.without"
        ) || return 1
    done
    if [[ -n $ours ]]; then
        cat "$tree"/codes/*/*/converted.log "$tree"/codes/*/*/*/converted.log 2>/dev/null |
            sed -nE 's/.* ([0-9]+) sections, ([0-9]+) can be.*/\1 \2/p' | awk -v name="$name" '
                { all += $1; closures += $2 }
                END { printf "splash-%s: %d of %d sections are closures, %.1f%%\n", name, closures, all, 100 * closures / all
                      exit name == "hold" && closures < 0.95 * all }' || { echo "FAILED: less than 95%"; return 1; }
    fi
    touch "$tree/built"
}

# splash_run TREE WAY DELEGATE: small problems by two threads, built WAY (`with` or `without` optional locks); what they print or draw that
# is the same in each run of a program goes to outcome-WAY-DELEGATE.
splash_run() {
    local tree=$1 way=$2 delegate=$3 program input failed=
    local to=$tree/outcome-$way-$delegate
    local -a command
    : >"$to.new"
    for program in "${splash_programs[@]}"; do
        cd "$tree/codes/$program"
        command=("./$(splash_target).$way") input=/dev/null
        case $program in
            apps/barnes) input=inputs/n8k-p2 ;;
            apps/fmm) input=inputs/input.2.16384 ;;
            apps/ocean/*) command+=(-p2 -n258 -o) ;;
            apps/radiosity) command+=(-p 2 -ae 5000 -bf 0.1 -en 0.05 -room -batch) ;;
            apps/raytrace) command+=(-p2 -m64 inputs/teapot.env) ;;
            apps/volrend) command+=(2 inputs/head-scaleddown4 4) ;;
            apps/water-*) input=inputs/n512-p2 ;;
            kernels/cholesky) command+=(-p2 -t) input=inputs/tk14.O ;;
            kernels/fft) command+=(-p2 -m16 -t) ;;
            kernels/lu/*) command+=(-p2 -n256 -t) ;;
            kernels/radix) command+=(-p2 -n262144 -t) ;;
        esac
        LOCKWORK_DELEGATE=$delegate timeout 120 "${command[@]}" <"$input" >"out-$way" 2>&1 || failed+=" $program"
        echo "$program" >>"$to.new"
        # Residual norms, tests of the result, energies, and the image that is the same each time (volrend's are not).
        grep -aE 'residual norm|PASS|FAIL|Finished|Number of patches' "out-$way" >>"$to.new" || true
        [[ $program != apps/water-* ]] || grep -aE '^ +3 +[0-9.]+ +[0-9.]+ +[0-9.]+' "out-$way" >>"$to.new" || true
        [[ $program != apps/raytrace ]] || md5sum inputs/teapot.rl >>"$to.new"
        cd "$top"
    done
    mv "$to.new" "$to"
    echo "$(basename "$tree") $way optional locks, $delegate: ${failed:+FAILED:$failed, }$(wc -l <"$to") lines"
    [[ -z $failed ]]
}

splash_started() { (cd codes/apps/radiosity && uses_delegates "./$(splash_target).with" -p 2 -batch); }

# Splash-3 as it was and converted, with its optional locks and without.
splash() {
    splash_sources || skipped splash "SPLASH names no sources and its repository cannot be reached, or there is no m4 for its macros"
    local delegate name option way failures=0
    splash_tree plain
    for way in with without; do splash_run "$work/splash-plain" "$way" none || true; done
    # shellcheck disable=SC2086
    for delegate in $delegates; do
        way_of "$delegate"
        splash_tree "$name" "$option"
        for way in with without; do
            splash_run "$work/splash-$name" "$way" "$delegate" || failures=$((failures + 1))
            diff "$work/splash-plain/outcome-$way-none" "$work/splash-$name/outcome-$way-$delegate" || failures=$((failures + 1))
        done
    done
    ((failures == 0)) || { echo "FAILED: $failures"; exit 1; }
}
