# The documentation, the texts of the packages, --help and the messages use the field's words (GLOSSARY.md), not those of scripts/words.txt.
. scripts/lib.sh
words() { perl scripts/words.pl scripts/words.txt "$@"; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# The check itself: each of these lines has a replaced word, and none of those has one.
cat >"$out/bad.md" <<'BAD'
Six things are in the way.
It cannot tell, and 1 could not be told.
The board sends it to a desk.
the 32 latest wake-ups
One law fits.
A keeper stays behind.
The CPU was taken away.
This figure is a mean.
Turned, and left alone: a knob.
It takes @TIME@.
BAD
cat >"$out/bad.rs" <<'BAD'
/// Could this have been told? The culprit is sure.
let said = "6 are in the way";
let said = "the hunt \
    is taken away";
BAD
cat >"$out/bad.ts" <<'BAD'
label.textContent = "time budget"
BAD
cat >"$out/bad.readme" <<'BAD'
The commands for a desk are in another package.
BAD
cat >"$out/good.md" <<'GOOD'
A desktop machine in a dark room for hardware, with room for two; a power law and Little's law.
Make sure that the in-way list is measured in the same way, in the way that perf does it.
`in the way`, `--tell` and [a link](desk.md) are code and targets.
```
the culprit is in the way
```
The hunt is a word of the example. <!-- words: allow it quotes another program -->
<!-- words: allow the next line quotes another program -->
The hunt begins.
GOOD
cat >"$out/good.rs" <<'GOOD'
/// Runs on `desk` in the same way.
let knob = keeper("why.rhythm", "in_the_way_of"); // names are no messages
// a desk
#[cfg(test)]
let said = "in the way";
GOOD
for file in "$out"/bad.*; do
    words "$file" >"$out/found" && die "no word was found in $file"
    missed=$(awk 'NR==FNR { split($0, part, ":"); hit[part[2]] = 1; next } !(FNR in hit)' "$out/found" "$file")
    [[ -z $missed ]] || die "nothing was found in: $missed"
done
words "$out"/good.* >"$out/found" || die "found where nothing is: $(cat "$out/found")"
echo 'no rule' >"$out/broken.txt"
status=0
perl scripts/words.pl "$out/broken.txt" "$out/good.md" 2>/dev/null || status=$?
[[ $status == 2 ]] || die "a broken list of rules was accepted"

mapfile -t files < <(git ls-files 'docs/*.md' README.md GLOSSARY.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md \
    packaging/{description,tarball-readme,examples,watch/watch.toml,watch/latlab-watch.service}'*' 'crates/*/src/*.rs' 'viewer/*/src/*.ts' 'viewer/*/src/*.html' |
    grep -vE '^crates/latlab-(testkit|model)/|^crates/latlab-report/src/(html|plot)/')
# Identifiers of saved files (latlab-model) and attributes of markup are not words.
words "${files[@]}"
