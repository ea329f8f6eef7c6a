#!/usr/bin/env bash
# fuzz.sh [SECONDS [TARGET...]]: builds the fuzz targets and runs each for SECONDS (default 60).
# fuzz.sh build [TARGET...]: builds them only.
# fuzz.sh rotate MINUTES [TARGET...]: runs the targets in turn for MINUTES in total, and keeps few small inputs that
# reach much of the code found so far in fuzz/corpus, where the next run goes on.
# fuzz.sh keep [TARGET...]: keeps them only, of inputs found before.
# fuzz.sh total: adds up account.tsv: CPU time of all runs, and since the last failure.
#
# FUZZ_JOBS of them run at a time (default: all CPUs). Prints for each target executions, edges of the
# control flow that were reached, and CPU time; appends the same, with the version, to account.tsv.
# FUZZ_STATE=FOLDER (default: fuzz) has inputs (work), failures and account.tsv (artifacts), and the build
# (target), so that several sessions and checkouts go on with one sum.
# Needs no nightly compiler: the coverage pass and AddressSanitizer of the stable one are enough for libFuzzer.
# Ends with 1 when an input crashes, takes more than 20 s of CPU time or 1 GiB; it is kept in artifacts, with its log.
. "$(dirname "$0")/lib.sh"
state=.
if [[ -n ${FUZZ_STATE:-} ]]; then
    mkdir -p "$FUZZ_STATE"
    state=$(cd "$FUZZ_STATE" && pwd)
fi
cd "$top/fuzz"
work=$state/work
artifacts=$state/artifacts
all=(analyses debug_info journal objects print_fmt reader results run text view wire)
# Real time in which an input that does not hang ends, also beside other processes; those of cpu_limit and more are run
# once more alone, where their CPU time decides.
alarm=120
cpu_limit=20
memory=(-rss_limit_mb=1024 -malloc_limit_mb=512)
# What is kept for a target in git, bytes.
kept_max=80000

# total: what the account adds up to.
total() {
    [[ -s $artifacts/account.tsv ]] || die "$artifacts/account.tsv: no run yet" "scripts/fuzz.sh rotate 60"
    awk -F '\t' '
        { runs[$2]++; cpu[$2] += $3; executions[$2] += $4; all += $3; clean += $3
          if ($5 > edges[$2]) edges[$2] = $5
          if ($6) { failures[$2]++; clean = 0 } }
        END {
            for (t in runs) {
                printf "%s\t%d runs\t%d s of CPU time\t%d executions\t%d edges\t%d failures\n",
                    t, runs[t], cpu[t], executions[t], edges[t], failures[t] | "sort"
            }
            close("sort")
            printf "all: %.2f h of CPU time; since the last failure: %.2f h\n", all / 3600, clean / 3600
        }' "$artifacts/account.tsv"
}
if [[ ${1:-} == total ]]; then
    total
    exit
fi

rotate='' build='' only_keep=''
case ${1:-} in
rotate) rotate=1 && shift ;;
build) build=1 && set -- 0 "${@:2}" ;;
keep) only_keep=1 && set -- 0 "${@:2}" ;;
esac
length=${1:-60}
[[ $length =~ ^[0-9]+$ ]] || die "$length: not a number of ${rotate:+minutes}${rotate:-seconds}" "scripts/fuzz.sh 60"
[[ $# -eq 0 ]] || shift
targets=("$@")
[[ $# -gt 0 ]] || targets=("${all[@]}")
jobs=${FUZZ_JOBS:-$(nproc)}

coverage=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing)
triple=$(rustc -vV | sed -n 's/^host: //p')
target_dir=${FUZZ_TARGET_DIR:-$state/target}
version=$(git rev-parse --short HEAD 2>/dev/null || :)
sanitizer=(-Zsanitizer=address)
if ! compgen -G "$(rustc --print sysroot)/lib/rustlib/$triple/lib/*_rt.asan.a" >/dev/null; then
    say "this compiler has no AddressSanitizer: without it"
    sanitizer=()
fi
bins=()
for t in "${targets[@]}"; do
    [[ " ${all[*]} " == *" $t "* ]] || die "$t: no fuzz target" "one of: ${all[*]}"
    bins+=(--bin "$t")
done
# Build scripts and macros are not instrumented: a --target of its own keeps the flags from them.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="${coverage[*]} ${sanitizer[*]}" \
    cargo build --release --locked --target-dir "$target_dir" --target "$triple" "${bins[@]}"
[[ -z $build ]] || exit 0
export ASAN_OPTIONS=quarantine_size_mb=16:detect_leaks=1:allocator_may_return_null=0

# seed TARGET: the inputs to begin with, in $work/TARGET.
seed() {
    local f
    mkdir -p "$work/$1" "$artifacts/$1" "corpus/$1"
    case $1 in
        reader | analyses)
            for f in ../fixtures/trace/*.dat; do
                [[ $(wc -c <"$f") -ge 70000 ]] || cp "$f" "$work/$1/"
            done
            ;;
        text) head -c 4000 ../fixtures/trace/f7-zstd.trace-cmd.txt >"$work"/text/trace-cmd ;;
        results) cp ../fixtures/memory/*.lat_mem_rd "$work/results/" ;;
        run)
            for f in ../fixtures/runs-v1/*/run.json; do
                cp "$f" "$work/run/$(basename "$(dirname "$f")").json"
            done
            # The names of fields, and the ends of ranges, are words that a mutation may insert.
            {
                grep -o '"[a-z_0-9]*": {' ../docs/run.schema.json | sort -u |
                    sed 's/^"\(.*\)": {$/"\\"\1\\":"/'
                printf '"%s"\n' 18446744073709551615 9223372036854775807 4294967295 1e308 -1
            } >"$work"/run.dict
            ;;
    esac
    for f in "seeds/$1/"* "corpus/$1/"*; do
        [[ ! -f $f ]] || cp "$f" "$work/$1/"
    done
}

# fuzz TARGET SECONDS: runs it, prints and notes what it did; fails when an input was found.
fuzz() {
    local t=$1 program=$target_dir/$triple/release/$1 log=$artifacts/$1.log options=() f failed=0
    [[ ! -s $work/$t.dict ]] || options=(-dict="$work/$t.dict")
    local before=$EPOCHSECONDS
    TIMEFORMAT='cpu: %U %S'
    { time "$program" "$work/$t" "${options[@]}" "${memory[@]}" -artifact_prefix="$artifacts/$t/" \
        -max_total_time="$2" -timeout=$alarm -report_slow_units=$cpu_limit -max_len=262144 -print_final_stats=1 -print_funcs=0 \
        >"$log" 2>&1; } 2>"$log.time" || failed=1
    local cpu executions edges
    cpu=$(awk '/^cpu:/ { print int($2 + $3) }' "$log.time")
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    for f in "$artifacts/$t"/{timeout,slow-unit}-*; do
        [[ -f $f && $(stat -c %Y "$f") -ge $before ]] || continue
        # Slow, or starved by other processes?
        if ! (ulimit -t $cpu_limit && "$program" -timeout=600 "$f" >"$log.again" 2>&1); then
            failed=1
        else
            rm "$f"
            [[ $f != */timeout-* ]] || failed=0
        fi
    done
    printf '%s: %s executions, %s edges, %s s of CPU time\n' "$t" "${executions:-0}" "${edges:-0}" "$cpu"
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%FT%TZ)" "$t" "$cpu" "${executions:-0}" \
        "${edges:-0}" "$failed" "$version" >>"$artifacts/account.tsv"
    [[ $failed == 0 ]] || cp "$log" "$artifacts/$t/$EPOCHSECONDS.log"
    [[ $failed == 0 ]] || tail -n 40 "$log" | sed "s/^/$t: /" >&2
    return "$failed"
}

# shrink TARGET: only the inputs that reach more than the smaller ones, in $work/TARGET.
shrink() {
    local t=$1
    rm -rf "$work/$t.new"
    mkdir "$work/$t.new"
    "$target_dir/$triple/release/$t" -merge=1 "$work/$t.new" "$work/$t" -timeout=$alarm "${memory[@]}" \
        >"$artifacts/$t.merge.log" 2>&1 || return 0
    rm -rf "${work:?}/$t"
    mv "$work/$t.new" "$work/$t"
}

# keep TARGET: few inputs that reach together all edges that were reached, the smallest of them, in corpus/TARGET.
keep() {
    local t=$1 f size sum=0 given
    rm -rf "$work/$t.cover"
    mkdir "$work/$t.cover"
    "$target_dir/$triple/release/$t" -set_cover_merge=1 -use_counters=0 -use_cmp=0 "$work/$t.cover" "$work/$t" \
        -timeout=$alarm "${memory[@]}" >"$artifacts/$t.cover.log" 2>&1 || return 0
    rm -rf "corpus/$t"
    mkdir -p "corpus/$t"
    given=$(find seeds ../fixtures -type f -exec sha1sum {} + | cut -d' ' -f1)
    while read -r size f; do
        # The name is the SHA-1 of the content; fixtures and seeds are kept already.
        [[ $given != *$f* ]] || continue
        sum=$((sum + size))
        [[ $sum -le $kept_max ]] || break
        cp "$work/$t.cover/$f" "corpus/$t/"
    done < <(find "$work/$t.cover" -type f -printf '%s %f\n' | sort -n)
    rm -rf "$work/$t.cover"
}

failed=0
# A job is a shell that waits for its program.
trap 'jobs -p | xargs -r -n 1 pkill -P || :; kill $(jobs -p) 2>/dev/null || :' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
each() { # each SECONDS TARGET…: JOBS at a time
    local seconds=$1 t running=0
    shift
    for t in "$@"; do
        if [[ $running -ge $jobs ]]; then
            wait -n || failed=1
            running=$((running - 1))
        fi
        fuzz "$t" "$seconds" &
        running=$((running + 1))
    done
    while [[ $running -gt 0 ]]; do
        wait -n || failed=1
        running=$((running - 1))
    done
}

for t in "${targets[@]}"; do seed "$t"; done
if [[ -n $only_keep ]]; then
    for t in "${targets[@]}"; do keep "$t"; done
elif [[ -z $rotate ]]; then
    [[ $length -eq 0 ]] || each "$length" "${targets[@]}"
else
    # At least twice through all, so that each gains from what it found.
    turn=$((length * 60 * jobs / (2 * ${#targets[@]})))
    # A run that is stopped is not in the account: short turns lose little.
    [[ $turn -le 300 ]] || turn=300
    end=$((EPOCHSECONDS + length * 60))
    while [[ $EPOCHSECONDS -lt $end ]]; do each $((turn > 0 ? turn : 1)) "${targets[@]}"; done
    for t in "${targets[@]}"; do
        shrink "$t"
        keep "$t"
    done
fi
exit "$failed"
