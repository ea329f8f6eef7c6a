# The page of latlab view: types, unit tests, that the committed bundle is what its source builds to,
# and the page in a real browser: tour, security, bad input (viewer/trace/e2e/run.mjs).
. scripts/lib.sh
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then apt_need "building the viewer's page" nodejs npm; fi
apt_need "looking at the viewer in a browser" chromium
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
debug_build
LATLAB=$(target_dir)/debug/latlab
export LATLAB
(
    cd viewer/trace
    npm ci --no-audit --no-fund --loglevel=error
    npm run --silent check
    npm test --silent 2>&1 | tee "$out/unit"
    OUT=$out/assets npm run --silent build
    SHOTS=$out/shots npm run --silent e2e
)
for f in view.html view.js view.css; do
    cmp "$out/assets/$f" "crates/latlab-view/assets/$f" ||
        die "crates/latlab-view/assets/$f is not what viewer/trace builds to" "cd viewer/trace && npm run build, and commit it"
done
unit=$(sed -n 's/.*Tests .*[^0-9]\([0-9][0-9]*\) passed.*/\1/p' "$out/unit" | tail -n 1)
echo "${unit:-0} passed, 0 failed"
