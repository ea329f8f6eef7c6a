# make run, make test: each does all of its own set-up and says what it installs.
SHELL := /bin/bash
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
LATLAB := $(TARGET_DIR)/release/latlab
PREFIX ?= /usr/local
STAGE ?=

.PHONY: help run test fuzz build boards packages wheel docs man install clean

help: ## This list.
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

run: ## A quick build of what measures, then `latlab survey --quick`: this machine in about a minute.
	@. scripts/lib.sh && first_build
	$(TARGET_DIR)/first/latlab survey --quick

test: ## Everything but the compiling of a kernel (STAGE=vm-build; STAGE=word for the stages of that name only).
	@scripts/test $(STAGE)

fuzz: ## Fuzz every reader of foreign bytes in turn (MINUTES=60, TARGET=NAME for one).
	@scripts/fuzz.sh rotate $(or $(MINUTES),60) $(TARGET)

build: ## The release build: target/release/latlab.
	@scripts/cargo build --release --locked -p latlab

boards: ## Static binaries for boards: dist/latlab-{armv7,aarch64,x86_64}.
	@scripts/boards $(BOARDS)

packages: ## Debian packages, static tarballs, lists of their parts: dist/packages (CHECK=1: build twice, compare).
	@CHECK=$(CHECK) scripts/packages $(ARCHS)

wheel: ## The Python package with the command: dist/latlab-*.whl (ARCH=aarch64 for another architecture).
	@ARCH=$(ARCH) scripts/wheel

docs: ## The documentation as a searchable site: target/docs/site/index.html.
	@scripts/docs

man: build ## Man pages and shell completions: dist/share.
	@rm -rf dist/share
	@$(LATLAB) generate dist/share

# As root, what is there is not built again: it would be with root's toolchain and leave root's files in the tree.
BUILT := $(and $(filter 0,$(shell id -u)),$(wildcard $(LATLAB)),$(wildcard dist/share))
INTO = $(DESTDIR)$(PREFIX)

install: $(if $(BUILT),,man) ## Install below PREFIX (/usr/local), with the board builds that are in dist.
	@newer=$(if $(BUILT),$$(find Cargo.lock crates -newer $(LATLAB) -name '*.[rl]*' -type f -print -quit)); \
	    [[ -z $$newer ]] || echo "installing $(LATLAB), although $$newer is newer: make man builds it again" >&2
	install -D -m 755 $(LATLAB) "$(INTO)/bin/latlab"
	find dist/share -type f -printf '%P\0' | xargs -0 -I {} install -D -m 644 dist/share/{} "$(INTO)/share/{}"
	find dist -maxdepth 1 -name 'latlab-*[!l]' -type f -exec install -D -m 755 -t "$(INTO)/lib/latlab" {} +
	install -D -m 644 -t "$(INTO)/share/latlab/faults" faults/*
	install -D -m 644 -t "$(INTO)/share/latlab/plugin" plugin/*

clean: ## Remove what was built.
	rm -rf $(TARGET_DIR) dist
