# Two commands do everything: `make demo` and `make test`. Each installs what it needs on Debian (see scripts/setup.sh).

CARGO ?= cargo

.PHONY: demo test build miri lint bench clean

## demo: compare locks on RocksDB, print a table and the path of the report
demo: build
	scripts/setup.sh demo
	scripts/demo.sh

## build: target/release/lockwork and target/release/liblockwork.so
build:
	$(CARGO) build --release

## test: everything that can be checked, in 17 to 20 minutes on 2 cores
test:
	scripts/setup.sh test
	$(CARGO) build --release -p lockwork-preload
	scripts/test.sh

## miri: every lock in Miri (more seeds: MIRI_SEEDS=0..8); installs a nightly toolchain with it
miri:
	scripts/setup.sh miri
	scripts/test.sh miri

## lint: formatting and clippy
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- --deny warnings

## bench: the benchmarks whose results are committed under results/
bench: build
	scripts/setup.sh bench
	scripts/bench.sh

clean:
	$(CARGO) clean
