#!/bin/sh
# A real browser for the page's tests: Debian's chromium-headless-shell, and the PyPI package playwright that drives it,
# in a Python environment below target/browser. What is there already is kept. Who may not install a browser goes on
# without: the tests say that they were skipped. BIZRQ_BROWSER names another Chromium.
set -eu
cd "$(dirname "$0")/.."
into=target/browser

if [ -z "${BIZRQ_BROWSER:-}" ] && ! command -v chromium-headless-shell >/dev/null && ! command -v chromium >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "no browser: the page is not tried in one; install chromium-headless-shell, or name one in BIZRQ_BROWSER" >&2
    exit 0
  fi
  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium-headless-shell || {
    echo "no browser: chromium-headless-shell cannot be installed here; the page is not tried in one" >&2
    exit 0
  }
fi

if [ ! -e "$into/ready" ]; then
  python3 -m venv "$into"
  "$into/bin/pip" install -q --disable-pip-version-check playwright==1.65.2
  "$into/bin/python" -c 'import playwright.sync_api' && touch "$into/ready"
fi
