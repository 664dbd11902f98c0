# Net::FTP as a client of the matrix; libraries.rs says what its words are.
use strict;
use warnings;
use Net::FTP;
use POSIX qw(strftime);

my ($host, $port, $user, $password, $tls, $certificate, $mode, $form, $verb, @words) = @ARGV;
my %options = (Host => $host, Port => $port, Passive => $mode eq 'passive', Timeout => 30);
if ($tls ne 'clear') {
    %options = (%options, SSL_ca_file => $certificate, SSL_verifycn_name => $host);
    $options{SSL} = 1 if $tls eq 'implicit';
}
my $ftp = Net::FTP->new(%options) or die "no connection: $@";
sub must { $_[0] or die $ftp->message || 'failed' }
must($ftp->starttls) if $tls eq 'explicit';
must($ftp->login($user, $password));
$form eq 'text' ? $ftp->ascii : $ftp->binary;

sub put_tree {
    my ($local, $remote) = @_;
    must($ftp->mkdir($remote));
    for my $here (glob "$local/*") {
        my $there = $remote . substr($here, length $local);
        -d $here ? put_tree($here, $there) : must($ftp->put($here, $there));
    }
}

sub get_tree {
    my ($local, $remote) = @_;
    mkdir $local or die $!;
    for my $line ($ftp->dir($remote)) {
        my $name = (split ' ', $line, 9)[8];
        my ($here, $there) = ("$local/$name", "$remote/$name");
        $line =~ /^d/ ? get_tree($here, $there) : must($ftp->get($there, $here));
    }
}

if ($verb eq 'put') { must($ftp->put(@words)) }
elsif ($verb eq 'get') { must($ftp->get($words[1], $words[0])) }
elsif ($verb eq 'resume_up') {
    open my $source, '<', $words[0] or die $!;
    seek $source, $ftp->size($words[1]), 0;
    must($ftp->append($source, $words[1]));
}
elsif ($verb eq 'resume_down') { must($ftp->get($words[1], $words[0], -s $words[0])) }
elsif ($verb eq 'put_tree') { put_tree(@words) }
elsif ($verb eq 'get_tree') { get_tree(@words) }
elsif ($verb eq 'put_times') {
    must($ftp->put(@words));
    my $when = strftime '%Y%m%d%H%M%S', gmtime((stat $words[0])[9]);
    must($ftp->quot('MFMT', $when, $words[1]) == 2);
}
elsif ($verb eq 'get_times') {
    must($ftp->get($words[1], $words[0]));
    my $when = must($ftp->mdtm($words[1]));
    utime $when, $when, $words[0];
}
elsif ($verb eq 'rename') { must($ftp->rename(@words)) }
elsif ($verb eq 'list') { print join("\n", map { s{.*/}{}r } $ftp->ls($words[0])), "\n" }
must($ftp->quit);
