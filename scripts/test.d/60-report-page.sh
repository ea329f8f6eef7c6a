# The interactive part of report.html: types, tests, that the committed bundle is what its source
# builds to, that a real browser draws every plot under the page's security policy, and that the
# report of each kind of run looks as in viewer/report/shots.
. scripts/lib.sh
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then apt_need "building the report's script" nodejs npm; fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(
    cd viewer/report
    npm ci --no-audit --no-fund --loglevel=error
    npm run --silent check
    npm test --silent | tee "$out/tests"
    OUT=$out/assets npm run --silent build
)
for f in report.js report.css report.js.sha256; do
    cmp "$out/assets/$f" "crates/latlab-report/assets/$f" ||
        die "crates/latlab-report/assets/$f is not what viewer/report builds to" "cd viewer/report && npm run build, and commit it"
done

apt_need "looking at the report in a browser" chromium
debug_build
"$(target_dir)/debug/examples/gallery" >"$out/gallery.html"
chromium --headless --no-sandbox --disable-gpu --disable-background-networking --virtual-time-budget=5000 \
    --user-data-dir="$out/profile" --enable-logging=stderr --dump-dom "file://$out/gallery.html" >"$out/dom" 2>"$out/log"
if grep -E 'CONSOLE.*(Error|Refused|Uncaught)' "$out/log"; then die "the browser complains about the page"; fi
plots=$(grep -c '<figure class="plot"' "$out/gallery.html") || true
drawn=$(grep -o 'class="drawing has-live"' "$out/dom" | wc -l)
[[ $plots -gt 0 && $drawn == "$plots" ]] || die "$drawn of $plots plots are interactive in a browser"
echo "$plots plots drawn in a browser"

# A report of each kind against its committed picture, at two widths, on paper and without the script.
apt_need "screenshots of reports" fonts-dejavu-core
kinds="bench compare doctor gaps memory memory-switch sched-experiment sched-file sweep timer wakeup why-hunt"
mkdir "$out/pages"
for kind in $kinds; do
    run=fixtures/runs-v1/$kind/run.json
    "$(target_dir)/debug/examples/page" <"$run" >"$out/pages/$kind.html"
done
(cd viewer/report && SHOTS=${SHOTS:-$top/target/shots} npm run --silent shots -- "$out/pages")
echo "$(($(sed -n 's/^# pass //p' "$out/tests") + 1)) passed, 0 failed"
