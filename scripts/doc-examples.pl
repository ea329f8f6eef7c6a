# perl scripts/doc-examples.pl FILE…: runs the examples of Markdown files, each block that begins with
# ```console run in an empty folder with `fixtures` in it, and compares what they print.
#
# A line `$ COMMAND` is run by bash, and what it prints on both outputs is compared with the lines up to the
# next one; a line … stands for any lines, also none. It has to succeed, unless its last line is `[exit code N]`.
use strict;
use warnings;
use utf8;
use open qw(:std :encoding(UTF-8));
use Cwd 'abs_path';
use File::Temp 'tempdir';

my ($passed, $failed) = (0, 0);
for my $file (@ARGV) {
    open my $in, '<', $file or die "$file: $!\n";
    my ($folder, $command, $line, @expected);
    my $finish = sub {
        return unless defined $command;
        check($file, $line, $folder, $command, @expected);
        ($command, @expected) = ();
    };
    while (<$in>) {
        chomp;
        if (!$folder) {
            next unless /^```console run$/;
            $folder = tempdir(CLEANUP => 1);
            symlink abs_path('fixtures'), "$folder/fixtures" or die "symlink: $!\n";
        } elsif (/^```$/) {
            $finish->();
            undef $folder;
        } elsif (/^\$ (.*)/) {
            my ($next, $here) = ($1, $.);
            $finish->();
            ($command, $line) = ($next, $here);
        } else {
            push @expected, $_;
        }
    }
}
print "$passed passed, $failed failed\n";
exit($failed || !$passed ? 1 : 0);

sub check {
    my ($file, $line, $folder, $command, @expected) = @_;
    my $wanted = 0;
    $wanted = $1 and pop @expected if @expected && $expected[-1] =~ /^\[exit code (\d+)\]$/;
    my $pid = open(my $out, '-|') // die "fork: $!\n";
    if (!$pid) {
        chdir $folder or die "$folder: $!\n";
        open STDERR, '>&', \*STDOUT or die "stderr: $!\n";
        exec 'bash', '-c', $command or die "bash: $!\n";
    }
    binmode $out, ':encoding(UTF-8)';
    my @printed = map { s/\s+$//r } <$out>;
    close $out;
    my $code = $? >> 8;
    s/\s+$// for @expected;
    my $pattern = join '', map { $_ eq '…' ? '(?:.*\n)*?' : quotemeta($_) . '\n' } @expected;
    my $text = join '', map { "$_\n" } @printed;
    if ($code == $wanted && $text =~ /^$pattern$/) { $passed++; return }
    $failed++;
    print "$file:$line: \$ $command\nexit code $code, expected $wanted; it prints\n$text\n";
}
