"""The short form of the tests of several hosts: one task computes on four hosts what it computes on one rank, and a lost host ends the job."""

import equality_test
import faults_test
import hosts

hosts.main([equality_test.compare("pointer", ["hierarchical"], ["sgd"]), faults_test.a_lost_host_ends_the_job])
