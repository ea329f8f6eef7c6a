# The scripts themselves.
. scripts/lib.sh
apt_need "checking the scripts" shellcheck
mapfile -t scripts < <(git ls-files scripts .ci | xargs grep -lE '^#!/usr/bin/env bash|^#!/bin/(ba)?sh|^\. scripts/lib.sh|^# shellcheck shell')
shellcheck --shell=bash --external-sources --source-path=SCRIPTDIR --source-path=. "${scripts[@]}"
echo "${#scripts[@]} scripts checked"
