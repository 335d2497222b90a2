# Two commands do everything: `make demo` and `make test`. Each installs what it needs on Debian (see scripts/setup.sh).

CARGO ?= cargo

.PHONY: demo test build install deb miri lint generate bench clean

## demo: which lock of two programs hurts, which would help, and proof of it; a report of eight locks
demo: build
	scripts/setup.sh demo
	scripts/demo.sh

## build: target/release/lockwork and target/release/liblockwork.so
build:
	$(CARGO) build --release

## install: the command, the libraries, headers, manual pages and completions below PREFIX (/usr/local), or DESTDIR and that
install: build
	$(CARGO) build --release -p lockwork-capi
	PREFIX=$(or $(PREFIX),/usr/local) LIBDIR=$(or $(LIBDIR),lib) DESTDIR=$(DESTDIR) scripts/install.sh

## deb: the same as Debian packages in target/deb, looked over by lintian
deb: build
	scripts/setup.sh deb
	$(CARGO) build --release -p lockwork-capi
	scripts/deb.sh

## test: everything that can be checked, in 17 minutes on 2 cores (a slow EPYC took 29)
test:
	scripts/setup.sh test
	scripts/test.sh

## miri: every lock in Miri (more seeds: MIRI_SEEDS=0..8); installs a nightly toolchain with it
miri:
	scripts/setup.sh miri
	scripts/test.sh miri

## lint: formatting and clippy
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- --deny warnings
	$(CARGO) clippy -p lockwork -p lockwork-capi --features lockwork/profile,lockwork-capi/profile -- --deny warnings

## generate: what is written from the registry of locks: README's table, a chapter of the book, the snapshot of the list
generate:
	LOCKWORK_REGENERATE=1 $(CARGO) test --quiet -p lockwork-locks --test generated
	LOCKWORK_REGENERATE=1 $(CARGO) test --quiet -p lockwork-config
	INSTA_UPDATE=always INSTA_FORCE_PASS=1 $(CARGO) test --quiet -p lockwork-cli --test golden

## bench: the benchmarks of scripts/bench.sh, two hours on an idle machine; `scripts/bench.sh quick` measures
## the default lock in 25 minutes, `scripts/bench.sh against OLD.so` this build of the library against another
bench: build
	scripts/setup.sh bench
	$(CARGO) build --release -p lockwork-capi
	scripts/bench.sh

clean:
	$(CARGO) clean
