# The documentation builds as a site, every page links the glossary and is in the contents, and every link
# leads to a page and a heading.
. scripts/lib.sh
bad=0
while read -r page; do
    grep -q 'GLOSSARY\.md' "$page" || { echo "$page: no link to GLOSSARY.md"; bad=1; }
    grep -qF "](${page#docs/})" docs/SUMMARY.md || { echo "docs/SUMMARY.md: $page is not in it"; bad=1; }
done < <(git ls-files 'docs/*.md' | grep -v SUMMARY)
site=$(scripts/docs)
[[ -s $(dirname "$site")/$(cd "$(dirname "$site")" && ls searchindex*.js) ]] || die "the site has no search index"
perl scripts/site-links.pl "$(dirname "$site")"
exit "$bad"
