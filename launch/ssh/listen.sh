#!/usr/bin/env bash
# Opens a port that MPI might have chosen, for launch/ssh/check, and prints its number: `listen.sh SECONDS`.
set -euo pipefail
# shellcheck disable=SC2016 # Perl's variables
exec perl -MSocket -e '
  socket(my $server, PF_INET, SOCK_STREAM, 0) or die "socket: $!\n";
  bind($server, sockaddr_in(0, INADDR_ANY)) or die "bind: $!\n";
  listen($server, 64) or die "listen: $!\n";
  my ($port) = sockaddr_in(getsockname($server));
  $| = 1;
  print "port $port\n";
  alarm($ARGV[0]);  # the end, also where the connection to check is gone
  while (accept(my $client, $server)) {
    print $client "dtrain\n";
    close($client);
  }' "$1"
