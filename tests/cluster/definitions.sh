#!/bin/sh
# A newer server of custom resources than the API server of `make e2e` is: the apiextensions-apiserver of Kubernetes 1.36 or
# later, as target/servers/apiextensions. Debian packages no newer kube-apiserver, not even its source (their packages of
# Kubernetes since 1.31 have kubectl alone), but the libraries of which this one is made: it is built from those of sid.
# With the argument `build` it is built, once, and kept outside the checkout (260 MB of packages, five minutes of one core);
# without, one that was built is taken, and where there is none its tests count as skipped. CI does not build it: what is
# in sid changes from day to day. Nothing is installed: packages are unpacked into a folder of the cache.
set -eu
cd "$(dirname "$0")/../.."
servers=$PWD/target/servers
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bizrq/apiextensions
package=golang-k8s-apiextensions-apiserver-dev

say() { echo "apiextensions: $*"; }
missing() { # cannot be had here: the tests say so, and count as skipped
  say "not to be had: $*"
  echo "$*" > "$servers/apiextensions.missing"
  exit 0
}
use() { # this one, from now on
  rm -f "$servers/apiextensions.missing"
  ln -sfn "$cache/apiextensions-apiserver" "$servers/apiextensions"
  say "$(cat "$cache/version") in $cache"
  exit 0
}

mkdir -p "$servers"
rm -f "$servers/apiextensions"
[ -x "$cache/apiextensions-apiserver" ] && use
[ "${1:-}" = build ] || missing "it was not built; run 'sh tests/cluster/definitions.sh build'"
for tool in apt-get dpkg-deb; do
  command -v $tool > /dev/null || missing "building it needs $tool"
done

# apt with lists, a cache and sources of its own: this machine's own Debian mirror, and of its suites sid.
build=$cache/build
mkdir -p "$build/lists/partial" "$build/cache/archives/partial" "$build/get" "$build/root"
mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' 2> /dev/null |
  grep '/debian/*$' | head -n 1)
[ -n "$mirror" ] || missing "this machine has no Debian mirror"
cat > "$build/debian.sources" << EOF
Types: deb
URIs: $mirror
Suites: sid
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
: > "$build/status"
apt() {
  apt-get -q -o Dir::Etc::sourcelist="$build/debian.sources" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$build/lists" \
    -o Dir::Cache="$build/cache" -o Dir::State::status="$build/status" -o APT::Sandbox::User=root "$@"
}
say "builds into $cache, once"
apt update > "$build/apt.log" 2>&1 || missing "Debian's lists: $(tail -n 1 "$build/apt.log")"
apt install --simulate --no-install-recommends "$package" golang-go > "$build/needed" 2> "$build/apt.log" ||
  missing "Debian's package $package: $(tail -n 1 "$build/apt.log")"
needed=$(awk '$1 == "Inst" && $2 ~ /^golang-/ {print $2}' "$build/needed")
# shellcheck disable=SC2086 # a word for each package
(cd "$build/get" && apt download $needed) > "$build/apt.log" 2>&1 || missing "Debian's packages: $(tail -n 1 "$build/apt.log")"
for file in "$build"/get/*.deb; do dpkg-deb -x "$file" "$build/root"; done
dpkg-deb -f "$build"/get/${package}_*.deb Version > "$cache/version"

GOROOT=$(echo "$build"/root/usr/lib/go-1.*)
export GOROOT GOPATH="$build/root/usr/share/gocode" GOCACHE="$build/go-cache" GO111MODULE=off CGO_ENABLED=0 GOFLAGS=
say "builds $(cat "$cache/version") with $("$GOROOT/bin/go" version)"
(cd "$GOPATH/src/k8s.io/apiextensions-apiserver" && nice "$GOROOT/bin/go" build -ldflags '-s -w' -o "$cache/part" .) > "$build/build.log" 2>&1 ||
  missing "the build: $(tail -n 1 "$build/build.log")"
mv "$cache/part" "$cache/apiextensions-apiserver"
chmod -R u+w "$build" && rm -rf "$build"
use
