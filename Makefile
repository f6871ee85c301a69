# Everything a contributor runs. `make` lists it. Debian 12 or 13, as root: labs are made of namespaces.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# All that outlives a work tree: node image, the Kubernetes of the tests, kernel of the test VM, logs, what the fuzzers found.
export NETLOOM_CACHE ?= /var/cache/netloom
export NETLOOM_IMAGE ?= $(NETLOOM_CACHE)/image/rootfs
# Where rustup puts cargo, which a shell that was there before does not know.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

target := $(or $(CARGO_TARGET_DIR),target)
# Cargo knows the number of cores better than make does. In CI it says only what went wrong.
cargo := env -u MAKEFLAGS -u MFLAGS cargo
quiet := $(if $(CI),--quiet)
bold := $(if $(MAKE_TERMOUT),\033[1m)
plain := $(if $(MAKE_TERMOUT),\033[0m)
step = @printf '$(bold)==> %s$(plain)\n' '$(1)'

# What the VM runs; KERNEL_ARGS is handed to the test executables: the tests whose packets another datapath treats differently. Those that
# take minutes in an emulated machine are left to `make test-long`.
kernel_tests := --workspace --test packets --test services --test truth_tables
kernel_short := everyone_reaches_everyone connections_go
kernel_long := every_kind_of_service random_clusters
KERNEL_ARGS ?= $(kernel_short)

# How many random sequences of changes the core is tried with.
CASES ?= 20000

packages_build := gcc libc6-dev ca-certificates
packages_lab := $(packages_build) mmdebstrap debian-archive-keyring iproute2 nftables
packages_image := $(packages_lab) python3
packages_kernel := $(packages_lab) qemu-system-x86 e2fsprogs cpio kmod xz-utils python3
packages_lint := $(packages_build) python3
packages_test := $(packages_lab) python3 openssl
packages_fuzz := $(packages_build) g++
packages_kubernetes := $(packages_lab) python3 python3-venv openssl libseccomp2 iputils-ping netcat-openbsd curl ethtool

.PHONY: help deps build programs rootfs image lab lab-down test test-property test-kernel test-kubernetes test-long bench lint fuzz manifests

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: deps-image deps-test deps-kernel deps-kubernetes deps-lint deps-fuzz ## install the Debian packages the other targets need, if any is missing

build: deps-build ## build netloom and netloom-cni (release)
	$(call step,building netloom and netloom-cni: the first time takes a few minutes)
	@$(cargo) build --release --locked $(quiet) -p netloom-cli -p netloom-cni

# The lab and the tests run one build, which takes less than half the time of a release. It is built together with one small test: thus the
# features of all dependencies are those the tests need, and `make test` does not build them again.
programs: deps-build
	$(call step,building netloom and netloom-cni: the first time takes a few minutes)
	@$(cargo) build --locked $(quiet) --workspace --bins --test plugin

rootfs: deps-lab ## build the root filesystem of the nodes
	$(call step,node image in $(NETLOOM_IMAGE))
	@image/build

# The plugin runs on hosts of any kind, so it brings its own C library.
image: deps-image build rootfs ## build the OCI image for clusters
	$(call step,OCI image)
	@RUSTFLAGS='-C target-feature=+crt-static' $(cargo) build --release --locked $(quiet) \
	    --target $(shell uname -m)-unknown-linux-gnu --target-dir $(target)/static -p netloom-cni
	@image/oci

manifests: go ## render deploy/*.yaml from the chart
	@tests/kubernetes/build
	@deploy/render

lab: deps-lab ## build what is missing and start a cluster on this machine
	@$(MAKE) -j2 programs rootfs
	$(call step,starting the lab)
	@$(target)/debug/netloom lab up

lab-down: ## stop the lab and remove it
	@$(target)/debug/netloom lab down

test: deps-test programs rootfs ## run every test that needs no other kernel
	$(call step,building and running the tests)
	@tests/run

test-property: deps-build ## try the core with CASES (20000) random sequences of changes
	$(call step,$(CASES) random sequences of changes)
	@NETLOOM_CASES=$(CASES) $(cargo) test --release --locked $(quiet) -p netloom-network --test properties

test-kernel: deps-kernel build programs rootfs ## run packet tests in a VM, on the kernel datapath
	$(call step,building the packet tests)
	@$(cargo) test --locked $(quiet) $(kernel_tests) --no-run
	$(call step,running them in a VM with the kernel of Debian)
	@executables=$$(tests/kernel/executables $(kernel_tests)); \
	NETLOOM_VM_BINARIES=$(target)/release tests/kernel/run tests/kernel/smoke $$executables -- $(KERNEL_ARGS)
	@grep -q '^test result: ok\. [1-9][0-9]* passed; 0 failed; 0 ignored' $(NETLOOM_CACHE)/vm-logs/output.log || \
	    { echo "test-kernel: no test ran, or one was ignored" >&2; exit 1; }

test-kubernetes: go deps-kubernetes image ## run the tests in a real Kubernetes, upstream's conformance included
	$(call step,Kubernetes from its Go modules: the first time takes about ten minutes)
	@tests/kubernetes/build
	@deploy/render --check
	@tests/kubernetes/images
	$(call step,running the tests in it)
	@tests/kubernetes/run
	@$(if $(CI),,cp $(NETLOOM_CACHE)/kubernetes/reports/conformance.md docs/conformance.md)

# What takes long and rarely breaks. Every layer has something in .ci/run as well.
test-long: test-kubernetes ## run the long tests, before a release: a few hours
	$(call step,the long tests of upstream)
	@tests/kubernetes/run --long
	@$(MAKE) test-kernel KERNEL_ARGS='$(kernel_short) $(kernel_long)'
	@$(MAKE) test-property CASES=500000
	@$(MAKE) fuzz FUZZ_SECONDS=600

bench: deps-lab rootfs ## measure
	$(call step,benchmarks)
	@$(cargo) build --release --locked $(quiet) -p netloom-cli -p netloom-cni -p netloom-bench
	@$(target)/release/netloom-bench $(BENCH)

lint: deps-lint ## formatting, clippy, licences and advisories
	$(call step,rustfmt)
	@$(cargo) fmt --all --check
	$(call step,clippy)
	@$(cargo) clippy --locked $(quiet) --workspace --all-targets -- -D warnings
	$(call step,licences and advisories)
	@deny/test.py 2>&1 | tail -n 1
	@deny/check.py

fuzz: deps-fuzz ## fuzz every parser of foreign bytes, FUZZ_SECONDS (20) each
	$(call step,fuzzing: building takes two minutes the first time)
	@fuzz/run

# The compilers come first: a machine that lacks one is told before anything is done to it.
.PHONY: rust go
rust go:
	@.ci/toolchain $@

# Installing costs nothing where nothing is missing.
.PHONY: deps-build deps-lab deps-image deps-test deps-kernel deps-kubernetes deps-lint deps-fuzz
deps-build deps-lab deps-image deps-test deps-kernel deps-kubernetes deps-lint deps-fuzz: deps-%: rust
	@missing=$$(comm -23 <(printf '%s\n' $(packages_$*) | sort) \
	    <(dpkg-query -W -f='$${db:Status-Status} $${Package}\n' $(packages_$*) 2>/dev/null | sed -n 's/^installed //p' | sort)); \
	if [ -n "$$missing" ]; then \
	    echo "==> installing" $$missing; \
	    [ "$$(id -u)" = 0 ] || { echo "make: run as root, or install them yourself" >&2; exit 1; }; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
