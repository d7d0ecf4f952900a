# The verbs of this project. Each line below a verb can be typed by hand.
# `make test` is what CI runs; it needs no cluster, fetches the servers and the browser that it starts and, once these and
# the crates are there, needs no network.

.PHONY: demo test soak e2e bench bench-cluster lint schemas manifests

demo: # a simulated fortnight through the real code paths
	cargo run --release -- demo

test: # everything that must hold
	sh tests/servers.sh
	sh tests/parquet.sh
	sh tests/browser.sh
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --test cluster --locked -- -D warnings
	cargo check -p bizrq --lib --no-default-features --locked
	cargo check -p bizrq-replay --locked
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --locked
	BIZRQ_FUZZ_SECONDS=20 cargo test --workspace --no-fail-fast --locked -- --show-output

soak: # a million asks of simulated replicas in a world that fails, each decision judged; BIZRQ_SEED begins with another seed
	BIZRQ_ASKS=1000000 cargo test --release --locked --test it -- --nocapture decider::simulation::whatever_fails

e2e: # on a real API server, which is built once and kept; KUBEBUILDER_ASSETS names another
	sh tests/servers.sh
	sh tests/cluster/fetch.sh
	sh tests/cluster/definitions.sh
	cargo test --test cluster --locked -- --show-output

bench: # the figures; alone on the machine, please
	cargo bench --locked

bench-cluster: # Deployments through a real API server, by whom it asks; alone on the machine, please
	sh tests/servers.sh
	sh tests/cluster/fetch.sh
	cargo bench --locked --bench cluster

lint: # the dependencies: advisories, licences, bans (.deny.toml), where cargo-deny is installed
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check --config .deny.toml; \
	else echo "not checked: advisories, licences, bans; run 'cargo install cargo-deny' first"; fi

schemas: # write schemas/ anew; tests compare them
	cargo run -- schemas schemas/event/v1 --api schemas/api/openapi.json
	BIZRQ_BLESS=1 cargo test --test it usage::schema
	cargo run -- crd > schemas/crd/bizgroupresourcequota.yaml
	cp schemas/crd/bizgroupresourcequota.yaml deploy/chart/crds/

manifests: # write deploy/rendered.yaml anew; tests compare it
	BIZRQ_WRITE_MANIFESTS=1 cargo test --test it deploy::what_is_rendered
