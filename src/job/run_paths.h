#pragma once

// The files that a run names (its data, a TorchScript file), found again from another folder, or
// after the run was moved together with them. Only rank 0 reads the run folder; it sends RunPaths
// to the others.

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain::job {

// Absolute; "" where it is not known.
struct RunPaths {
  std::string run;  // the run folder
  // The folder that the run was started in, if the run was moved together with it
  std::string origin;
  std::string data, module_file;  // where they were, by environment.json
};
std::string to_text(const RunPaths&);
RunPaths run_paths_from(const std::string& text);

// The paths of the run that a checkpoint belongs to: all "" for a checkpoint outside of a run.
// `runs_folder` is its run.folder. A missing or damaged environment.json is no error, nor is one
// that is a pipe or has more than 1 MiB.
RunPaths run_paths_of(const std::filesystem::path& checkpoint,
                      const std::filesystem::path& runs_folder);

// Where `file`, as the run names it, may be now, in the order in which to try: as it is given (from
// the current folder), relative to the run (to the folder it was started in, then to the run folder
// itself), and where it was.
std::vector<std::string> places_of(const std::string& file, const RunPaths&,
                                   const std::string& where_it_was);

}  // namespace dtrain::job
