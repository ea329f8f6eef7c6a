# Every crate that ends up in the product has a licence that MIT OR Apache-2.0 may be combined with.
. scripts/lib.sh
for manifest in Cargo.toml crates/latlab-python/Cargo.toml; do
    scripts/cargo tree --locked --manifest-path "$manifest" --workspace -e normal --prefix none --format '{p}|{l}'
done | sed 's/ (\*)$//; /^$/d' | sort -u |
    awk -F'|' '
        # Allowed when one of the alternatives has nothing but these words in it.
        BEGIN { n = split("MIT Apache-2.0 BSD-2-Clause BSD-3-Clause ISC Zlib 0BSD Unlicense CC0-1.0 BSL-1.0 Unicode-3.0 Apache-2.0_WITH_LLVM-exception MPL-2.0", w, " ")
                for (i = 1; i <= n; i++) free[w[i]] = 1 }
        { text = $2; gsub(/ WITH /, "_WITH_", text); gsub(/[()]/, "", text); gsub(/\//, " OR ", text)
          ok = 0; m = split(text, alternatives, / +OR +/)
          for (i = 1; i <= m; i++) {
              k = split(alternatives[i], words, / +AND +/); all = k > 0
              for (j = 1; j <= k; j++) { gsub(/ /, "", words[j]); if (!(words[j] in free)) all = 0 }
              if (all) ok = 1
          }
          if (!ok) { print "not allowed: " $1 ": \"" $2 "\""; bad = 1 }
          total++ }
        END { print total " crates looked at"; exit bad || total < 2 }'
