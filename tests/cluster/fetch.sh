#!/bin/sh
# The real API server that `make e2e` starts, as a link at target/servers/kubernetes to a folder with etcd, kube-apiserver,
# kube-controller-manager and kubectl. Where KUBEBUILDER_ASSETS names such a folder, that one is taken. Otherwise they are
# built once from Debian's source package of Kubernetes 1.20.2 (about five minutes of two cores, 4 GB of disk while it
# builds) and kept outside the checkout. Nothing is installed: Debian's packages are unpacked into the same folder.
# Where a package cannot be had, the reason is left in target/servers/kubernetes.missing and the tests count as skipped.
set -eu
cd "$(dirname "$0")/../.."
servers=$PWD/target/servers
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bizrq/kubernetes-1.20.2
programs="etcd kube-apiserver kube-controller-manager kubectl"
# What a new machine may spend here, in seconds. A build that takes longer goes on where it stopped at the next run.
patience=${BIZRQ_FETCH_SECONDS:-1500}

say() { echo "kubernetes: $*"; }
missing() { # cannot be had here: the tests say so, and count as skipped
  say "not to be had: $*"
  echo "$*" > "$servers/kubernetes.missing"
  exit 0
}
complete() { for program in $programs; do [ -x "$1/$program" ] || return 1; done; }
use() { # this folder, from now on
  rm -f "$servers/kubernetes.missing"
  ln -sfn "$1" "$servers/kubernetes"
  say "$("$1/kube-apiserver" --version) in $1"
  exit 0
}

mkdir -p "$servers" "$cache"
rm -f "$servers/kubernetes"
if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  [ -x "$KUBEBUILDER_ASSETS/kube-apiserver" ] || { say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no kube-apiserver" >&2; exit 1; }
  use "$KUBEBUILDER_ASSETS"
fi
complete "$cache/bin" && use "$cache/bin"

# One builds; whoever comes meanwhile waits and finds the programs.
exec 9> "$cache/lock"
flock -w "$patience" 9 || missing "somebody else has been building for $patience s"
complete "$cache/bin" && use "$cache/bin"

for tool in apt-get dpkg-deb tar make; do
  command -v $tool > /dev/null || missing "building it needs $tool"
done

# apt with lists, a cache and sources of its own: this machine's own Debian mirror, its suite (etcd, the source) and the
# older one that has the Go which 1.20.2 was made for (built with a newer one it crashes at webhook calls).
build=$cache/build
mkdir -p "$build/lists/partial" "$build/cache/archives/partial" "$build/get" "$cache/bin"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2> /dev/null |
  awk -v suite="$suite" '$2 == suite {print $1; exit}')
[ -n "$mirror" ] || missing "this machine has no Debian mirror for ${suite:-its suite}"
cat > "$build/debian.sources" << EOF
Types: deb deb-src
URIs: $mirror
Suites: $suite bullseye
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
: > "$build/status"
apt() {
  apt-get -q -o Dir::Etc::sourcelist="$build/debian.sources" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$build/lists" \
    -o Dir::Cache="$build/cache" -o Dir::State::status="$build/status" -o APT::Sandbox::User=root "$@" > "$build/apt.log" 2>&1 ||
    { tail -n 5 "$build/apt.log"; return 1; }
}
unpack() { # a package of Debian, once
  [ -e "$build/root/.$1" ] && return
  say "unpacks $1"
  (cd "$build/get" && apt download "$1") || missing "Debian's package $1"
  mkdir -p "$build/root"
  dpkg-deb -x "$build"/get/"$1"_*.deb "$build/root" && touch "$build/root/.$1"
}

say "builds into $cache, once"
apt update || missing "Debian's lists"
for package in golang-1.15-src golang-1.15-go etcd-server; do unpack $package; done
cp "$build/root/usr/bin/etcd" "$cache/bin/etcd"

# The source below a GOPATH; Debian's three patches concern kubectl's output and a CVE, and are left out.
source=$build/go/src/k8s.io/kubernetes
if [ ! -e "$source/.unpacked" ]; then
  say "unpacks the source"
  (cd "$build/get" && apt source --download-only kubernetes) || missing "Debian's source package kubernetes"
  mkdir -p "$source"
  tar -C "$source" --strip-components=1 -xf "$build"/get/kubernetes_1.20.5+really1.20.2.orig.tar.gz
  touch "$source/.unpacked"
fi

# Its makefile copies the tools that it builds by `rsync -pc FILE FOLDER`; cp does.
mkdir -p "$build/tools"
printf '#!/bin/sh\nshift\nexec cp -p "$@"\n' > "$build/tools/rsync" && chmod +x "$build/tools/rsync"

export GOPATH="$build/go" GOROOT="$build/root/usr/lib/go-1.15" GOCACHE="$build/go-cache" GO111MODULE=off CGO_ENABLED=0
export GOFLAGS= KUBE_VERBOSE=0 PATH="$build/tools:$build/root/usr/lib/go-1.15/bin:$PATH"
for package in component-base/version client-go/pkg/version; do
  for value in gitVersion=v1.20.2 gitMajor=1 gitMinor=20; do
    stamp="${stamp:-} -X k8s.io/kubernetes/vendor/k8s.io/$package.$value"
  done
done
cd "$source"
deadline=$(($(date +%s) + patience))
step() { # WHAT COMMAND…: one step of the build, in the time that is left
  say "$1"
  shift
  nice timeout $((deadline - $(date +%s))) "$@" > "$build/build.log" 2>&1 && return
  [ "$(date +%s)" -lt "$deadline" ] || missing "the build took longer than $patience s; the next run goes on with it"
  tail -n 20 "$build/build.log" >&2
  say "$* failed" >&2
  exit 1
}
if [ ! -e .generated ]; then
  rm -rf _output # what an interrupted make left looks finished to the next one
  step "generates sources" make generated_files
  touch .generated
fi
for program in kube-apiserver kube-controller-manager kubectl; do
  step "builds $program" go build -ldflags "-s -w$stamp" -o "$cache/bin/$program.part" "./cmd/$program"
  mv "$cache/bin/$program.part" "$cache/bin/$program"
done
chmod -R u+w "$build" && rm -rf "$build"
use "$cache/bin"
