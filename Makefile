# The verbs of this project. Each line below a verb can be typed by hand.
# `make test` is what CI runs; it needs no cluster, no server and, once the crates are there, no network.

.PHONY: demo test bench lint schemas

demo: # a simulated fortnight through the real code paths
	cargo run --release -- demo

test: # everything that must hold
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo check -p bizrq --lib --no-default-features --locked
	cargo check -p bizrq-replay --locked
	cargo test --workspace --no-fail-fast --locked -- --show-output

bench: # the figures; alone on the machine, please
	cargo bench --locked

lint: # what is not in `test`: prose of the docs, and the dependencies where cargo-deny is installed
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --config .deny.toml check; \
	else echo "not checked: advisories, licences, bans (cargo-deny is not installed: cargo install cargo-deny)"; fi

schemas: # write schemas/event/v1 anew; a test compares them
	cargo run -- schemas schemas/event/v1
