# shellcheck shell=bash
# Programs that are analysed and not compiled. Part of transform-programs.sh.

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
