# make run, make test: each does all of its own set-up and says what it installs.
SHELL := /bin/bash
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
LATLAB := $(TARGET_DIR)/release/latlab
PREFIX ?= /usr/local
STAGE ?=

.PHONY: help run test fuzz build boards wheel docs man install clean

help: ## This list.
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

run: ## A quick build of what measures, then `latlab survey --quick`: this machine in about a minute.
	@scripts/cargo build --profile first --no-default-features --locked -p latlab
	$(TARGET_DIR)/first/latlab survey --quick

test: ## Everything that can be tested here (STAGE=word for the stages of that name only).
	@scripts/test $(STAGE)

fuzz: ## Fuzz every reader of foreign bytes in turn (MINUTES=60, TARGET=NAME for one).
	@scripts/fuzz.sh rotate $(or $(MINUTES),60) $(TARGET)

build: ## The release build: target/release/latlab.
	@scripts/cargo build --release --locked -p latlab

boards: ## Static binaries for boards: dist/latlab-{armv7,aarch64,x86_64}.
	@scripts/boards $(BOARDS)

wheel: ## The Python package with the command: dist/latlab-*.whl.
	@scripts/wheel

docs: ## The documentation as a searchable site: target/docs/site/index.html.
	@scripts/docs

man: build ## Man pages and shell completions: dist/share.
	@rm -rf dist/share
	@$(LATLAB) generate dist/share

install: man ## Install below PREFIX (/usr/local).
	install -D -m 755 $(LATLAB) $(DESTDIR)$(PREFIX)/bin/latlab
	cd dist/share && find . -type f -exec install -D -m 644 {} $(DESTDIR)$(PREFIX)/share/{} \;

clean: ## Remove what was built.
	rm -rf $(TARGET_DIR) dist
