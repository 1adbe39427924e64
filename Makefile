# The menu. `make` prints it; the work is in scripts/, the build in CMakeLists.txt.
PREFIX ?= /usr/local
RESP   ?= 127.0.0.1:6390
HTTP   ?= 127.0.0.1:8390
export PREFIX RESP HTTP

.DEFAULT_GOAL := help
.PHONY: help build run test bench bench-docs soak asan tsan test-aarch64 fuzz mutants format install uninstall clean

help: ## this menu
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

build: ## build what `make run` starts: build/release/weir
	@scripts/build.sh release

run: ## build, and serve from memory on loopback (RESP=ADDR HTTP=ADDR)
	@scripts/run.sh

test: ## install what the tests need, then pass all of them
	@scripts/test.sh

bench: ## the figures, beside peers and the machine's limits
	@scripts/bench.sh

bench-docs: ## the same, and renew docs/performance.md and README.md
	@scripts/bench.sh --docs

soak: ## the long runs (SOAK_MINUTES=30)
	@scripts/soak.sh

asan: ## all tests under AddressSanitizer and UBSan
	@scripts/test.sh asan

tsan: ## all tests under ThreadSanitizer
	@scripts/test.sh tsan

test-aarch64: ## the C tests for aarch64, on an x86-64: a cross build, run by qemu-user
	@scripts/test.sh aarch64

fuzz: ## fuzz every parser for FUZZ_SECONDS=60 each
	@scripts/fuzz.sh

mutants: ## break weir on purpose, and see the tests notice (NAMES="core server.wheel_early")
	@scripts/mutants.sh $(NAMES)

format: ## clang-format every C file
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: ## install under PREFIX=/usr/local (DESTDIR=)
	@scripts/build.sh release
	@cmake --install build/release --prefix "$(PREFIX)"
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true # so that programs find libweir.so

uninstall: ## remove what `make install` installed
	@scripts/uninstall.sh

clean: ## remove build/
	@rm -rf build
