# Analysis composes no text: identifiers and values only. The wording is in latlab-report/messages.
. scripts/lib.sh
# Prints file:line of macros and functions that compose text, outside test code (everything from
# #[cfg(test)] on, and files named tests.rs, pattern.rs or scenario.rs, which only tests compile).
# shellcheck disable=SC2016 # $0 is awk's
composed() {
    git ls-files --cached --others --exclude-standard "$1/*.rs" | grep -vE '/(tests|pattern|scenario)\.rs$|/tests/' |
        xargs awk 'FNR == 1 { skip = 0 }
            /#\[cfg\(test\)\]/ { skip = 1 }
            skip || /^[[:space:]]*\/\// { next }
            /(^|[^a-z_])(format|write|writeln)!\(|format_ns\(/ { print FILENAME ":" FNR ": " $0; n++ }
            END { exit n > 0 }'
}
bad=0
composed crates/latlab-analysis/src || bad=1
# The check itself: a line that composes text is found.
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
printf 'fn f() -> String {\n    format!("late by {}", 1)\n}\n' >"$probe/a.rs"
if (cd "$probe" && git init -q . && composed .) >/dev/null; then die "the check finds nothing in a line that composes text"; fi
[[ $bad == 0 ]] || die "latlab-analysis composes text" "return an identifier with values; latlab-report/messages has the wording"
echo "no text is composed in latlab-analysis"
