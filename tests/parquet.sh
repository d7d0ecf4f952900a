#!/bin/sh
# DuckDB, which reads in a test what `-o parquet` writes: a Python environment below target/parquet, from the PyPI wheel
# duckdb. What is there already is kept.
set -eu
cd "$(dirname "$0")/.."
into=target/parquet
if [ ! -e "$into/ready" ]; then
  python3 -m venv "$into"
  "$into/bin/pip" install -q --disable-pip-version-check duckdb==2.0.0
  "$into/bin/python" -c 'import duckdb' && touch "$into/ready"
fi
