# perl scripts/site-links.pl DIR: each link of the HTML files below DIR leads to a file in it, and each
# fragment to an element of that page. Links to other sites are not followed, and are none of src=.
use strict;
use warnings;
use File::Find;
use File::Spec::Functions qw(catfile);
use Cwd 'abs_path';

my $top = abs_path(shift // die "usage: site-links.pl DIR\n");
my (%ids, @pages);
find({ no_chdir => 1, wanted => sub { push @pages, $_ if /\.html$/ } }, $top);
my ($links, $bad) = (0, 0);

sub slurp { open my $in, '<:encoding(UTF-8)', $_[0] or die "$_[0]: $!\n"; local $/; return <$in> }
sub ids { return $ids{$_[0]} //= { map { $_ => 1 } slurp($_[0]) =~ /\sid="([^"]+)"/g } }
sub broken { print substr($_[0], length($top) + 1), ": $_[1]\n"; $bad++ }

for my $page (sort @pages) {
    next if $page =~ m{/(?:404|print|toc)\.html$}; # assembled from the other pages
    (my $folder = $page) =~ s{/[^/]*$}{};
    my $html = slurp($page);
    while ($html =~ /\s(href|src)="([^"]*)"/g) {
        my ($attribute, $link) = ($1, $2);
        if ($link =~ /^[a-z]+:/) {
            broken($page, "loads $link from another site") if $attribute eq 'src';
            next;
        }
        $links++;
        my ($path, $id) = $link =~ /^([^#]*)(?:#(.*))?$/;
        $id =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge if defined $id;
        my $file = $path eq '' ? $page : catfile($folder, $path);
        if (!-e $file) { broken($page, "no such file: $link"); next }
        $file = abs_path($file);
        broken($page, "no such heading: $link") if defined $id && length $id && $file =~ /\.html$/ && !ids($file)->{$id};
    }
}
print "$links links of ", scalar @pages, " pages checked\n";
exit($bad || !$links ? 1 : 0);
