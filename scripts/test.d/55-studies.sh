# Each table and plot of the published studies (docs/studies.md) by its command, in a short form.
. scripts/lib.sh
debug_build
latlab=$(cd "$(target_dir)/debug" && pwd)/latlab
out=$(mktemp -d)
# A disk that is a file, where O_DIRECT works.
disk=$(mktemp -p "$(target_dir)")
disk=$(realpath "$disk")
head -c 20M /dev/zero >"$disk"
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$out" "$disk"' EXIT
export NO_COLOR=1 COLUMNS=200
page=$top/docs/studies.md
fixtures=$top/fixtures
passed=0 failed=0 again=0
# Commands of the page that were run here, or that a test runs elsewhere.
declare -A met=()

# row COMMAND OPTIONS PATTERN…: COMMAND is on the page; with OPTIONS, which make it short, it ends with 0 and prints
# each PATTERN (extended regular expression). On a shared machine a measurement may be disturbed: one that fails is run
# once more.
row() {
    met[$1]=1
    grep -qF -- "\`latlab ${1//|/\\|}\`" "$page" || {
        printf 'FAIL not on the page: latlab %s\n' "$1"
        failed=$((failed + 1))
        return
    }
    if run_row "$@"; then
        passed=$((passed + 1))
        return
    fi
    failed=$((failed + 1))
    printf 'FAIL latlab %s\n' "$1"
    if run_row "$@"; then
        again=$((again + 1))
        printf 'repeated: latlab %s\n' "$1"
    fi
}

# run_row COMMAND OPTIONS PATTERN…: one run of a row; says why it fails.
run_row() {
    local command=$1 options=$2 status=0 pattern
    shift 2
    local -a words short kept=()
    command=${command//\/dev\/sda/$disk}
    eval "words=(${command//fixtures\//$fixtures/})" "short=($options)"
    # An option of the short form replaces that of the command, with its value.
    local word skip=
    for word in "${words[@]}"; do
        if [[ -n $skip && $word != -* ]]; then
            skip=
            continue
        fi
        skip=
        if [[ $word == -* && " ${short[*]} " == *" $word "* ]]; then
            skip=1
            continue
        fi
        kept+=("$word")
    done
    words=("${kept[@]}" "${short[@]}")
    (cd "$out" && timeout 300 "$latlab" "${words[@]}" >"$out/said" 2>&1 </dev/null) || status=$?
    if [[ $status -ne 0 ]]; then
        printf 'exit code %s: latlab %s %s\n' "$status" "$command" "$options"
        tail -n 5 "$out/said"
        return 1
    fi
    for pattern; do
        grep -qE -- "$pattern" "$out/said" || {
            printf 'no "%s" in: latlab %s %s\n' "$pattern" "$command" "$options"
            head -n 40 "$out/said"
            return 1
        }
    done
}

# elsewhere COMMAND FILE TEXT: the test in FILE, which has TEXT, runs COMMAND in a machine.
elsewhere() {
    met[$1]=1
    grep -qF -- "$3" "$top/$2" || {
        printf 'FAIL no "%s" in %s: latlab %s\n' "$3" "$2" "$1"
        failed=$((failed + 1))
    }
}

# Each command in the second column of the page's tables.
of_page() {
    perl -CS -ne 'next unless /^\| /; my @cells = split /(?<!\\)\|/; my $cell = $cells[2] // "";
        while ($cell =~ /`latlab(?: ([^`]*))?`/g) { my $c = $1 // ""; $c =~ s/\\\|/|/g; print "$c\n" }' "$page"
}

# The check itself: a command that is not on the page, one that fails, and one without what is expected.
row 'bench syscall.getppid' '-D 1s' 'getppid' >/dev/null
row 'bench lat_syscall --against beaglebone-black-2015 --against intel-i5-2015' '--no-such' 'x' >/dev/null
row 'bench lat_syscall --against beaglebone-black-2015 --against intel-i5-2015' '-D 1s' 'never printed' >/dev/null
elsewhere 'no-such' docs/studies.md 'never printed' >/dev/null
[[ $passed == 0 && $failed == 4 && $again == 0 ]] || die "of four wrong rows, $failed were refused"
failed=0 met=()

# ARM-Linux on a BeagleBone Black (2015).
row 'bench mhz' '-D 1s' 'cpu\.clock' 'op=rotate-add' 'greatest common divisor'
row 'bench disk:path=/dev/sda' '-D 1s --details' 'disk\.seek' 'Disk over position'
# The file is there before the server, which a shell starts when it likes.
: >"$out/server"
"$latlab" bench --serve 127.0.0.1:0 >"$out/server" 2>&1 &
server=$!
for ((i = 0; i < 100; i++)); do
    host=$(sed -n 's/^listening on \([^ ]*\) .*/\1/p' "$out/server")
    [[ -z $host ]] || break
    sleep 0.1
done
[[ -n $host ]] || die "latlab bench --serve does not listen: $(cat "$out/server")"
row 'bench lat_tcp lat_udp lat_connect bw_tcp lat_rpc lat_http --host board' "-D 1s --host $host" 'ipc\.rpc-udp' 'ipc\.tcp-connect' 'bw\.tcp'
row 'bench lat_syscall --against beaglebone-black-2015 --against intel-i5-2015' '-D 1s --details' 'syscall\.open-close' 'Beside published machines' 'intel-i5-2015'
row "bench 'ipc.unix-stream:size=1|2|3|4|5|6|7|8|10|12|16|20|24|32|48|64|96|128|196|256|384|512' --against beaglebone-black-2015" '-D 2s --details' 'ipc\.unix-stream: 1 B to 512 B' 'beaglebone-black-2015'
row 'memory' '--quick -s 8 -D 3s --details --out board' 'a\[i\] \*= a\[i\] over 1 MiB' 'Latency of a load by size'
row 'memory' '--quick -s 8 -D 3s --out laptop' 'Memory'
row 'compare board laptop' '--details' 'a\[i\] \*= a\[i\] over 1 MiB by stride' 'A board' 'B laptop'
row 'memory --from fixtures/memory/beaglebone-black.lat_mem_rd' '--details --out here' 'L1 32 KiB' 'Latency of a load by stride' 'T0' 'Map of regimes' '2\.b L2'
row 'compare @beaglebone-black-2015 here' '' 'memory\.load:stride=64' '220 ns'
row 'bench lat_rpc lat_http lat_usleep lat_pmake lmdd' '-D 1s' 'ipc\.rpc-udp' 'timer\.sleep' 'process\.parallel'
row 'timer' '-D 1s' 'HZ|Hz'
if [[ $(id -u) -eq 0 ]]; then
    row 'memory --switch macro --class fifo' '-D 1s --procs 2,4,8,16 --working-sets 0,2K,4K,8K --details' 'What refilling adds' 'Theory beside measurement|knee' 'with 0 B and 2 KiB by number of processes' 'with 4 KiB and 8 KiB by number of processes'
    row 'memory --switch micro --class fifo --cold' '-D 500ms --procs 2,3 --working-sets 0,2K' 'memory'
    row 'sched --policy rr --prio 90,90' '-D 1s' '100\.0 ms|slice'
    row 'sched --policy fifo --prio 90,45' '-D 1s' 'fifo|FIFO'
    row 'sched --work io --policy fifo --prio 90,90' '-D 1s' 'fifo|FIFO'
    row 'sched --work io -D 3s' '-D 1s --details' 'CPU bursts \(run time from a wake-up'
    row 'sched --nice 0,0' '-D 1s' 'share'
    row 'sched --matrix' '-D 1s --only cpu-rr-90-45' 'cpu-rr-90-45'
    row "record -e irq_handler_entry -f 'irq==21' -e irq_handler_exit -f 'irq==21' -D 5s" '-D 1s' 'events'
    row 'record -e sched_switch -D 5s -o trace.dat' '-D 1s' 'events'
    row 'report trace.dat' '' 'sched_switch'
    row 'bench ctx.yield ctx.pipe:class=fifo --each 2000000' '--each 20000 --details' 'ctx\.yield: 20.?000 single operations' 'jitter' 'ctx\.yield.*: values in order' 'ctx\.pipe.*: values in order'
    row "bench 'ctx.kernel:part=whole|choose|switch|context'" '-D 1s' 'ctx\.kernel part=switch'
    row 'why --limit auto -D 60s' '-D 4s' 'Wake-up latency while traced|limit|late'
    row 'why --window 50us..60us -i 1500 -D 60s' '-D 4s --details' 'from the command line: 50\.0 µs to 60\.0 µs'
    row 'bench ctx.yield ctx.pipe:class=fifo ctx.nanosleep --against cortex-a8-switch' '-D 1s --details' 'ctx\.nanosleep' 'cortex-a8-switch'
else
    echo 'skipped without root: sched, record, switches under SCHED_FIFO'
    [[ -z ${CI:-} ]] || failed=$((failed + 1))
fi

# Xenomai latency under memory pressure (TI AM5728).
row "wakeup --load '16*cpu' --load '4*io' --load '2*hdd:256M' --load '2*vm:128M:4096' -i 100 -D 10m --out pressure" '-D 1s --load cpu --details' 'max' 'standard deviation'
row 'compare @am5728-xenomai pressure' '' '30\.9 µs' 'mean'
row "sweep --vm 2 --vm-bytes 1M..256M:x2 --vm-stride 1,16,32,64,128,256,512,1024,2048,4096 --mode alloc,keep,hang=2s --load '16*cpu' --load '4*io' --response max -i 100 -D 3m" '--dry-run' '2\*vm:268435456:4096:keep' 'points of 180000 ms'
row "sweep --vm 2 --vm-bytes 1M..256M:x2 --vm-stride 1,16,32,64,128,256,512,1024,2048,4096 --mode alloc,keep,hang=2s --load '16*cpu' --load '4*io' --response max -i 100 -D 3m" '--vm-bytes 1M --vm-stride 4096 --mode alloc --refine 0 -D 300ms --details' 'maximum' '1048576'


# Finding latency bottlenecks by ftrace (2012).
row 'sweep period -D 10m' '-D 200ms --details' 'Latency by period' 'missed' '60%'
row 'compare @cortex-a8-elc2012 @pentium4-elc2012 pressure' '' '27\.2 ms' '921'
row 'profile fixtures/trace/elc2012-activate-task.txt' '' 'activate_task\(\) took 28\.1 ms'
row 'profile fixtures/trace/cyclictest-mark-graph.txt' '' 'spin_for +37'

elsewhere '--on vm:armv7 sched --nice 0,5 -D 3 --out cfs' crates/latlab/tests/cli/vm.rs 'fn the_smallest_virtual_run_time_runs_next'
elsewhere 'report cfs --details' crates/latlab/tests/cli/vm.rs 'Virtual run time (vruntime) while runnable'
elsewhere 'record -p function -l do_sys_openat2 -o f.dat' crates/latlab/tests/cli/vm.rs 'record -p function -l do_sys_openat2'
elsewhere 'record -p function_graph -g do_sys_openat2 --max-graph-depth 4 -o graph.dat' crates/latlab/tests/cli/vm.rs 'record -p function_graph -g do_sys_openat2'
elsewhere 'record -p wakeup_rt -o longest.txt -- latlab wakeup -q -p 80 -l 200' crates/latlab/tests/cli/vm.rs 'record -p wakeup_rt -o /work/longest.txt'
elsewhere 'profile longest.txt' crates/latlab/tests/cli/vm.rs '["profile", "longest.txt", "--json"]'
elsewhere 'noise --by hwlat -D 60s' crates/latlab/tests/cli/vm.rs 'noise --by hwlat'
elsewhere 'check fifty.req' crates/latlab/tests/cli/check.rs 'fn without_runs_it_measures'
elsewhere menu crates/latlab/tests/cli/menu.rs 'fn every_experiment_runs_to_its_end'
elsewhere 'image --board beaglebone-black --build-kernel no-smp+no-power-saving --build-u-boot -o sd.img' crates/latlab/tests/cli/image.rs 'fn a_plan_has_what_is_built_from_source'
elsewhere 'image --board beaglebone-black --nfs-root 192.168.7.1:/srv/bone -o netboot' crates/latlab/tests/cli/image/network.rs '--nfs-root'

# What is on the page is run.
[[ $(id -u) -ne 0 ]] || while read -r command; do
    [[ -n ${met[${command:-menu}]:-} ]] || {
        printf 'FAIL on the page and not run by any test: latlab %s\n' "$command"
        failed=$((failed + 1))
    }
done < <(of_page)

printf '%s passed, %s failed\n' "$passed" "$failed"
exit $((failed > again))
