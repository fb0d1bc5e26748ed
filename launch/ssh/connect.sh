#!/usr/bin/env bash
# Tries to connect to ports of the other hosts, for launch/ssh/check: `connect.sh OWN_NAME SECONDS NAME:PORT...` prints
# `NAME ok` or `NAME REASON`.
set -euo pipefail
# shellcheck disable=SC2016 # Perl's variables
exec perl -MIO::Socket::INET -e '
  my ($own, $timeout, @targets) = @ARGV;
  $| = 1;
  for my $target (@targets) {
    my ($name, $port) = split(/:/, $target);
    next if $name eq $own;
    my $socket = IO::Socket::INET->new(PeerAddr => $name, PeerPort => $port, Proto => "tcp", Timeout => $timeout);
    my $reason = $@;
    my $said = $socket ? <$socket> : undef;
    $reason =~ s/^IO::Socket::INET: (connect: )?//;
    print "$name ", (defined $said && $said eq "dtrain\n" ? "ok" : $reason || "closed at once"), "\n";
  }' "$@"
