# perl scripts/doc-commands.pl FILE…: each command line of latlab in Markdown files is one that latlab parses:
# those of code blocks, and `latlab …` in the text unless it is a synopsis (with [ or …).
#
# In a block with prompts (`$ `) the other lines are output. A command line is parsed up to `--help`, which is
# added to it: options, their values and commands are checked, and nothing is run. What latlab itself runs
# (`-- latlab …`, `-- sh -c '…'`) is parsed too.
use strict;
use warnings;
use utf8;
use open qw(:std :encoding(UTF-8));

my ($parsed, $refused) = (0, 0);
for my $file (@ARGV) {
    open my $in, '<', $file or die "$file: $!\n";
    chomp(my @lines = <$in>);
    for (my $n = 0; $n < @lines; $n++) {
        if ($lines[$n] !~ /^\s*```/) {
            while ($lines[$n] =~ /`(latlab [^`]*)`/g) {
                (my $span = $1) =~ s/\\\|/|/g;
                parse($file, $n + 1, $span) unless $span =~ /\[|…/;
            }
            next;
        }
        my $end = $n + 1;
        $end++ until $end > $#lines || $lines[$end] =~ /^\s*```/;
        # Other languages have no command lines.
        if ($lines[$n] =~ /^\s*```(?:sql|python|toml|json)\b/) { $n = $end; next }
        my $prompts = grep { /^\$ / } @lines[$n + 1 .. $end - 1];
        for (my $at = $n + 1; $at < $end; $at++) {
            next if $prompts && $lines[$at] !~ /^\$ /;
            my ($line, $script) = ($at + 1, $lines[$at] =~ s/^\$ //r);
            # A quoted script or a continued line goes on below.
            $script .= "\n" . $lines[++$at] while $at + 1 < $end && ($script =~ tr/'// % 2 || $script =~ /\\$/);
            parse($file, $line, $script);
        }
        $n = $end;
    }
}
print "$parsed passed, $refused failed\n";
exit($refused || !$parsed ? 1 : 0);

# The commands of a script as lists of words: quotes, backslashes, comments, redirections, pipes and lists.
sub commands {
    my @commands = ([]);
    for ($_[0]) {
        while (1) {
            last if /\G(?:[ \t]|\\\n)*\z/gc;
            next if /\G(?:[ \t]|\\\n)+/gc || /\G#[^\n]*/gc || /\G[0-9]*[<>]+&?[ \t]*[^\s;|&]*/gc;
            if (/\G[\n;|&]+/gc) { push @commands, []; next }
            my $word = '';
            while (1) {
                if (/\G'([^']*)'/gc || /\G"((?:[^"\\]|\\.)*)"/gc || /\G\\(.)/gcs || /\G([^\s'"\\;|&<>]+)/gc) { $word .= $1 }
                else { last }
            }
            die "unbalanced quote in: $_\n" if $word eq '' && /\G['"]/;
            last if $word eq '' && !/\G(?=[\s;|&<>])/gc && (pos // 0) >= length;
            push @{ $commands[-1] }, $word;
        }
    }
    return grep { @$_ } @commands;
}

sub parse {
    my ($file, $line, $script) = @_;
    for my $command (commands($script)) {
        my @words = @$command;
        shift @words if $words[0] eq 'sudo';
        my ($dashes) = grep { $words[$_] eq '--' } 0 .. $#words;
        my @inner = defined $dashes ? @words[$dashes + 1 .. $#words] : ();
        if (@words && $words[0] eq 'latlab') {
            splice @words, defined $dashes ? $dashes : scalar @words, 0, '--help';
            my $pid = open(my $out, '-|');
            die "fork: $!\n" unless defined $pid;
            if (!$pid) {
                open STDERR, '>&', \*STDOUT;
                { exec { $words[0] } @words }
                print "$words[0]: $!\n";
                exit 127;
            }
            my @printed = <$out>;
            if (close $out) { $parsed++ }
            else { $refused++; print "$file:$line: @$command\n", grep { /\S/ } @printed[0 .. ($#printed < 1 ? $#printed : 1)] }
        }
        parse($file, $line, $inner[2]) if @inner > 2 && "@inner[0, 1]" eq 'sh -c';
        parse($file, $line, join ' ', map { "'$_'" } @inner) if @inner && $inner[0] eq 'latlab';
    }
}
