#include "supervisor/mpirun_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::supervisor {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using Words = std::vector<std::string>;

TEST(MpirunCommand, HasRanksHostsFlagsAndProgram) {
  EXPECT_THAT(mpirun_command({2, {}}, {"--mca", "btl", "tcp,self"}, {"/bin/dtrain", "train"}),
              ElementsAre("setpriv", "--pdeathsig", "TERM", "mpirun", "--tag-output", "-np", "2",
                          "--mca", "btl", "tcp,self", "/bin/dtrain", "train"));
  EXPECT_THAT(mpirun_command({3, {{"a", 2}, {"b", 2}}}, {}, {"dtrain"}), Contains("a:2,b:1"));
}

TEST(MpirunEnvironment, AllowsMoreRanksThanCoresUnlessItSaysOtherwise) {
  EXPECT_THAT(
      mpirun_environment(Words{"A=1", "TMPDIR=/x"}, "/folder"),
      ElementsAre("A=1", "TMPDIR=/folder", "OMPI_MCA_rmaps_base_oversubscribe=1",
                  "OMPI_MCA_hwloc_base_binding_policy=none", "OMPI_MCA_oob_tcp_keepalive_time=10",
                  "OMPI_MCA_oob_tcp_keepalive_intvl=5", "OMPI_MCA_oob_tcp_keepalive_probes=4"));
  const Words own = mpirun_environment(Words{"OMPI_MCA_hwloc_base_binding_policy=core"}, "/f");
  EXPECT_THAT(own, Contains("OMPI_MCA_hwloc_base_binding_policy=core"));
  EXPECT_THAT(own, Not(Contains("OMPI_MCA_hwloc_base_binding_policy=none")));
}

TEST(HandedOn, IsNotSaidTwice) {
  EXPECT_THAT(handed_on("A", {"-x", "B"}, Words{"A=1"}), ElementsAre("-x", "A"));
  EXPECT_THAT(handed_on("A", {}, Words{"OMPI_MCA_mca_base_env_list=B"}), ElementsAre());
  EXPECT_THAT(handed_on("A", {"--mca", "mca_base_env_list", "B"}, Words{}), ElementsAre());
}

TEST(RemoteShell, IsThatOfMpirun) {
  EXPECT_EQ(remote_shell({}, Words{}).front(), "ssh");
  EXPECT_THAT(remote_shell({}, Words{"OMPI_MCA_plm_rsh_agent=rsh -l me"}),
              ElementsAre("rsh", "-l", "me"));
  EXPECT_THAT(remote_shell({}, Words{"OMPI_MCA_plm_rsh_agent=ssh -4 : rsh"}),
              ElementsAre("ssh", "-4"));
  EXPECT_THAT(
      remote_shell({"--mca", "plm_rsh_agent", "/my agent"}, Words{"OMPI_MCA_plm_rsh_agent=rsh"}),
      ElementsAre("/my", "agent"));
  EXPECT_THAT(
      remote_shell({}, Words{"OMPI_MCA_plm_rsh_agent=rsh", "OMPI_MCA_plm_rsh_args=-p 2222"}),
      ElementsAre("rsh", "-p", "2222"));
}

TEST(WithoutFlags, RemovesBothSpellingsAndNothingElse) {
  const Words names = {"--name", "--run.name"};
  EXPECT_THAT(
      without_flags({"c.yaml", "--name", "x", "--lr=1", "--run.name=y", "--lr", "2"}, names),
      ElementsAre("c.yaml", "--lr=1", "--lr", "2"));
  EXPECT_THAT(without_flags({"--named", "x", "--name"}, names), ElementsAre("--named", "x"));
  EXPECT_THAT(without_flags({}, names), ElementsAre());
}

TEST(WithGlobalBatch, ReplacesWhatTheArgumentsSayOfIt) {
  EXPECT_THAT(
      with_global_batch({"--batch-size", "8", "--accumulate=2", "--train.global_batch", "5"}, 64),
      ElementsAre("--batch-size", "8", "--train.accumulate", "0", "--train.global_batch", "64"));
}

}  // namespace
}  // namespace dtrain::supervisor
