#!/usr/bin/env bash
# Makes Debian packages of a release build: the command with the library that goes under programs (lockwork), the C library
# (liblockwork-c0), and its headers, static library, pkg-config file and CMake package (liblockwork-dev).
#
#   scripts/deb.sh [DIRECTORY]     (default: target/deb)
#
# The same build gives the same packages: their times are those of the last commit, or SOURCE_DATE_EPOCH. lintian looks them over,
# if it is there; what it calls an error or a warning fails. DEBFULLNAME and DEBEMAIL name another maintainer.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly OUT=${1:-${CARGO_TARGET_DIR:-target}/deb}
readonly MAINTAINER="${DEBFULLNAME:-The Lockwork maintainers} <${DEBEMAIL:-lockwork@users.noreply.github.com}>"
VERSION=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
ARCHITECTURE=$(dpkg --print-architecture)
TRIPLET=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
readonly VERSION ARCHITECTURE TRIPLET
export SOURCE_DATE_EPOCH

STAGE=$(mktemp -d)
readonly STAGE
trap 'rm -rf "$STAGE"' EXIT

# What dpkg-shlibdeps and lintian look for beside the files.
prepare() {
    mkdir -p "$STAGE/debian"
    sed "s/@MAINTAINER@/$MAINTAINER/" scripts/debian/control >"$STAGE/debian/control"
    cat >"$STAGE/debian/changelog" <<END
lockwork ($VERSION) unstable; urgency=medium

  * A package of this version of Lockwork: /usr/share/doc/lockwork/NEWS.gz
    says what is new in it.

 -- $MAINTAINER  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
    PREFIX=/usr LIBDIR=lib/$TRIPLET DESTDIR=$STAGE/all scripts/install.sh >/dev/null
    local usr=$STAGE/all/usr
    strip --strip-unneeded --remove-section=.comment --remove-section=.note \
        "$usr/bin/lockwork" "$usr/lib/lockwork/liblockwork.so" "$usr/lib/$TRIPLET/liblockwork_c.so.0"
    strip --strip-debug --enable-deterministic-archives "$usr/lib/$TRIPLET/liblockwork_c.a"
    find "$usr/share/man" -type f -exec gzip -9n {} +
    mkdir -p "$usr/share/zsh/vendor-completions"
    mv "$usr/share/zsh/site-functions/_lockwork" "$usr/share/zsh/vendor-completions/"
    rmdir "$usr/share/zsh/site-functions"
}

# Moves files of the installation into a package's tree: name, paths below /usr.
take() {
    local root=$STAGE/$1/usr path
    shift
    for path in "$@"; do
        mkdir -p "$root/$(dirname "$path")"
        mv "$STAGE/all/usr/"$path "$root/$(dirname "$path")/"
    done
}

# The value of `shlibs:Depends` for the programs and libraries of the arguments.
libraries_of() {
    (cd "$STAGE" && dpkg-shlibdeps -O "$@" 2>/dev/null) | sed 's/^shlibs:Depends=//'
}

# Packs a tree: name, what it depends on.
pack() {
    local name=$1 depends=$2 root=$STAGE/$1
    local doc=$root/usr/share/doc/$name
    mkdir -p "$doc" "$root/DEBIAN"
    gzip -9n <"$STAGE/debian/changelog" >"$doc/changelog.gz"
    install -m 644 scripts/debian/copyright "$doc/copyright"
    [[ $name != lockwork ]] || gzip -9n <CHANGELOG.md >"$doc/NEWS.gz"
    awk -v name="$name" 'BEGIN { RS = ""; FS = "\n" } $1 == "Package: " name' "$STAGE/debian/control" |
        awk -v version="$VERSION" -v architecture="$ARCHITECTURE" -v maintainer="$MAINTAINER" -v depends="$depends" \
            -v size="$(du -k -s --apparent-size "$root/usr" | cut -f 1)" '
            /^Architecture:/ { $0 = "Architecture: " architecture }
            /^Depends:/ { $0 = "Depends: " depends }
            /^Description:/ { print "Priority: optional" }
            { print }
            /^Package:/ { print "Source: lockwork"; print "Version: " version; print "Maintainer: " maintainer; print "Installed-Size: " size }
        ' >"$root/DEBIAN/control"
    (cd "$root" && find usr -type f -printf '%P\n' | LC_ALL=C sort | sed 's,^,usr/,' | xargs -d '\n' md5sum) >"$root/DEBIAN/md5sums"
    find "$root" -type d -exec chmod 755 {} +
    find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz -z3 --build "$root" "$OUT/${name}_${VERSION}_$ARCHITECTURE.deb" >/dev/null
    packages+=("$OUT/${name}_${VERSION}_$ARCHITECTURE.deb")
}

prepare
mkdir -p "$OUT"
packages=()
take lockwork bin lib/lockwork share
take liblockwork-c0 "lib/$TRIPLET/liblockwork_c.so.0"
take liblockwork-dev include "lib/$TRIPLET"

mkdir -p "$STAGE/liblockwork-c0/DEBIAN"
echo "liblockwork_c 0 liblockwork-c0 (>= $VERSION)" >"$STAGE/liblockwork-c0/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$STAGE/liblockwork-c0/DEBIAN/triggers"

pack lockwork "$(libraries_of lockwork/usr/bin/lockwork lockwork/usr/lib/lockwork/liblockwork.so)"
pack liblockwork-c0 "$(libraries_of "liblockwork-c0/usr/lib/$TRIPLET/liblockwork_c.so.0")"
pack liblockwork-dev "liblockwork-c0 (= $VERSION), libc6-dev"

if type -P lintian >/dev/null; then
    lintian --allow-root --fail-on error,warning "${packages[@]}"
else
    echo "deb: lintian is not there to look them over" >&2
fi
printf 'deb: %s\n' "${packages[@]}"
