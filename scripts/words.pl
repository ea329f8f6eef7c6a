# perl scripts/words.pl RULES FILE…: lines of FILEs in which a rule of RULES (scripts/words.txt) matches,
# as FILE:LINE: WORD -> REPLACEMENT; then a count. Exit code 1 when there is one, 2 for a broken rule.
#
# What is checked depends on the name of the file:
#   *.md          text outside of code blocks and `code`; of CHANGELOG.md only the topmost section
#   *.rs          string literals, and doc comments (in crates/ only those of latlab/src/cli: they are --help), up to the tests
#   *.ts, *.html  string literals, text outside of tags
#   others        whole lines
# A line with `words: allow REASON` in it, or after such a line of its own, is left out.
use strict;
use warnings;
use utf8;
use open qw(:std :encoding(UTF-8));

my $rules = shift // die "usage: words.pl RULES FILE…\n";
my @rules;
open my $in, '<', $rules or die "$rules: $!\n";
while (<$in>) {
    chomp;
    next if /^\s*(?:#|$)/;
    my ($regex, $use) = /^(.*\S)\s+=\s+(\S.*)$/ or broken("no ' = ' in it");
    my $compiled = eval { qr/$regex/i } // broken("no regular expression: $@");
    '' !~ $compiled or broken('matches the empty line');
    push @rules, [$compiled, $use];
}
@rules or broken('no rule');

my ($found, $lines) = (0, 0);
my $literal = 0; # whether a string literal of Rust goes on from the line before
for my $file (@ARGV) {
    open my $text, '<', $file or die "$file: $!\n";
    my ($fence, $sections, $allowed) = (0, 0, 0);
    $literal = 0;
    while (my $line = <$text>) {
        last if $file =~ /\.rs$/ && $line =~ /^#\[cfg\(test\)\]/;
        if ($file =~ /\.md$/) {
            last if $file =~ /CHANGELOG\.md$/ && $line =~ /^## / && $sections++;
            if ($line =~ /^\s*```/) { $fence = !$fence; next }
            next if $fence;
        }
        if ($line =~ /words: allow\s+\S/) { $allowed = $line =~ m{^\s*(?://|<!--|#)}; next }
        if ($allowed) { $allowed = 0; next }
        $lines++;
        my $checked = checked($file, $line);
        for my $rule (@rules) {
            while ($checked =~ /$rule->[0]/g) {
                print "$file:$.: ", substr($checked, $-[0], $+[0] - $-[0]), " -> $rule->[1]\n";
                $found++;
            }
        }
    }
}
print "$found words in ", scalar @ARGV, " files ($lines lines, ", scalar @rules, " rules)\n";
exit($found ? 1 : 0);

sub broken { print STDERR "$rules:$.: $_[0]\n"; exit 2 }

# What of a line a user reads.
sub checked {
    my ($file, $line) = @_;
    if ($file =~ /\.md$/) {
        $line =~ s/`[^`]*`/`/g;
        $line =~ s/\]\([^)]*\)/]/g;
        return $line;
    }
    if ($file =~ /\.rs$/) {
        if (!$literal && $line =~ m{^\s*//[/!](.*)}) {
            (my $doc = $1) =~ s/`[^`]*`/`/g;
            return $file =~ m{^crates/(?!latlab/src/cli/)} ? '' : $doc;
        }
        return '' if !$literal && $line =~ m{^\s*//};
        $line =~ s/'"'|\\"/ /g;
        my @parts = split /"/, $line, -1;
        my @read = map { $parts[$_] } grep { ($_ + $literal) % 2 } 0 .. $#parts;
        $literal = ($literal + $#parts) % 2;
        # `area.kebab-case` and `snake_case` are identifiers, whatever they are made of.
        return join ' | ', grep { !/^[a-z0-9]+(?:[._-][a-z0-9]+)*[._][a-z0-9_.-]+$/ } @read;
    }
    return $line if $file !~ /\.(?:ts|html)$/;
    return '' if $line =~ m{^\s*(?://|\*|/\*)};
    my @parts = $line =~ /"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`/g;
    push @parts, $line =~ />([^<>]+)</g if $file =~ /\.html$/;
    push @parts, $line if $file =~ /\.html$/ && $line !~ /[<>]/;
    return join ' | ', grep { defined } @parts;
}
