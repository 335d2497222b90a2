# shellcheck shell=bash
# Sources of Debian's packages, and how they are compiled. Part of transform-programs.sh.

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

# Compilers, of C and of C++, that note how each C file is compiled, add options (COMPILE_WITH), and, with
# NOTE_ONLY, compile nothing. Another run may be building with the same ones, so that they are never there in part.
recorder() {
    local new
    new=$(mktemp "$work/cc.XXXXXX")
    # Started for each file: the system's own, not what PATH has in front of it, and without what it does not need.
    local python=/usr/bin/python3
    [[ -x $python ]] || python=$(type -P python3)
    echo "#!$python -SE" >"$new"
    cat >>"$new" <<'PYTHON'
import json, os, sys
arguments = sys.argv[1:]
lines = os.environ.get("COMPILE_LINES")
if lines and "-c" in arguments:
    for name in arguments:
        if name.endswith(".c"):
            with open(lines, "a") as to:
                to.write(json.dumps({"directory": os.getcwd(), "file": name, "arguments": ["cc", *arguments]}) + "\n")
made = [arguments[at + 1] for at, option in enumerate(arguments[:-1]) if option in ("-o", "-MF")]
arguments += os.environ.get("COMPILE_WITH", "").split()
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
compiler = "g++" if sys.argv[0].endswith("/cxx") else "gcc"
os.execvp(compiler, [compiler, *arguments])
PYTHON
    chmod 755 "$new"
    mv -f "$new" "$work/cc"
    [[ -L $work/cxx ]] || ln -sf cc "$work/cxx"
}

database() { (echo '['; paste -sd, "$1"; echo ']') >"$2"; }

quiet_make() { timeout 900 make ACLOCAL=: AUTOCONF=: AUTOMAKE=: AUTOHEADER=: "$@"; }
