#include "dist/object_collectives.h"

#include <gtest/gtest.h>

#include "support/thread_world.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

TEST(ObjectCollectives, TheObjectOfRankZeroReachesAllRanks) {
  run_thread_world(3, [](Communicator& comm) {
    const bool root = comm.rank() == 0;
    EXPECT_EQ(
        broadcast_object(comm, std::string(root ? "from rank 0" : "ignored, and longer than that")),
        "from rank 0");
    EXPECT_EQ(broadcast_object(comm, std::string(root ? "" : "ignored")), "");
    EXPECT_EQ(broadcast_object(comm, "a literal"), "a literal");
    EXPECT_EQ(broadcast_object(comm, 0.5 + comm.rank()), 0.5);
    const Bytes sent(70'001, std::byte{7});
    EXPECT_EQ(broadcast_object(comm, root ? sent : Bytes()), sent);
    EXPECT_EQ(broadcast_values(comm, std::vector<int>(root ? 2u : 5u, comm.rank() + 7)),
              (std::vector<int>{7, 7}));
    EXPECT_TRUE(broadcast_values(comm, std::vector<double>(root ? 0u : 1u)).empty());
  });
}

TEST(ObjectCollectives, ObjectsOfAnySizeAreGatheredByRank) {
  run_thread_world(3, [](Communicator& comm) {
    const auto bytes_of_rank = [](int rank) {
      return Bytes(static_cast<size_t>(rank), static_cast<std::byte>(rank));
    };
    EXPECT_EQ(all_gather_object(comm, bytes_of_rank(comm.rank())),
              (std::vector<Bytes>{bytes_of_rank(0), bytes_of_rank(1), bytes_of_rank(2)}));
    EXPECT_EQ(all_gather_object(comm, Bytes()), std::vector<Bytes>(3));
    EXPECT_EQ(all_gather_object(comm, std::string(static_cast<size_t>(comm.rank()), 'x')),
              (std::vector<std::string>{"", "x", "xx"}));
  });
}

TEST(ObjectCollectives, ValuesAreGatheredByRank) {
  run_thread_world(3, [](Communicator& comm) {
    struct Place {
      int rank;
      double seconds;
    };
    EXPECT_EQ(largest_of_ranks(comm, comm.rank() == 1 ? 7.5 : -comm.rank()), 7.5);
    const std::vector<Place> places =
        all_gather_object(comm, Place{comm.rank(), 0.5 * comm.rank()});
    ASSERT_EQ(places.size(), 3u);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(places[static_cast<size_t>(rank)].rank, rank);
      EXPECT_EQ(places[static_cast<size_t>(rank)].seconds, 0.5 * rank);
    }
    // Lists of different lengths become one list.
    EXPECT_EQ(
        all_gather_values(comm, std::vector<int>(static_cast<size_t>(comm.rank()), comm.rank())),
        (std::vector<int>{1, 2, 2}));
    EXPECT_TRUE(all_gather_values(comm, std::vector<double>()).empty());
  });
}

TEST(ObjectCollectives, TextOfEachRankReachesRankZeroInPieces) {
  run_thread_world(3, [](Communicator& comm) {
    std::string received;
    for (int from = 0; from < comm.size(); ++from) {
      stream_to_rank0(
          comm, from,
          [&](const TakePiece& send) {
            EXPECT_EQ(comm.rank(), from);
            for (int piece = 0; piece < from * 2 + 1; ++piece) {
              send(std::string(1000 * static_cast<size_t>(from) + 1,
                               static_cast<char>('a' + piece)));
            }
          },
          [&](std::string_view piece) {
            EXPECT_EQ(comm.rank(), 0);
            received += str(piece.front(), piece.size(), " ");
          });
    }
    EXPECT_EQ(received,
              comm.rank() == 0 ? "a1 a1001 b1001 c1001 a2001 b2001 c2001 d2001 e2001 " : "");
  });
}

TEST(ObjectCollectives, ARankMayHaveNoText) {
  run_thread_world(2, [](Communicator& comm) {
    for (int from = 0; from < 2; ++from) {
      stream_to_rank0(
          comm, from, [](const TakePiece&) {}, [](std::string_view) { ADD_FAILURE(); });
    }
  });
}

}  // namespace
}  // namespace dtrain::dist
