# Links between the documents lead to files that are there.
. scripts/lib.sh
bad=0 n=0
while IFS=: read -r file link; do
    n=$((n + 1))
    [[ -e $(dirname "$file")/${link%%#*} ]] || { echo "$file: no such file: $link"; bad=1; }
done < <(git ls-files '*.md' | xargs grep -oHE '\]\([^)#][^)]*\)' | sed -E 's/\]\(([^)]*)\)/\1/' | grep -vE ':(https?|mailto):')
echo "$n links checked"
exit "$bad"
