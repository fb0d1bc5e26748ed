#pragma once

// Converts a raw data set to one dtrain HDF5 file (docs/file_formats.md), ready for training.
// Head-pose sets: pictures are cropped to the head and scaled, targets are yaw, pitch and roll in
// degrees, and no photo or person is in two splits. Class folders of images and sequences, files of
// sets with orders, and files of arrays: see class_folders.h, stored_sample.h, pointer_file.h
// and array_set.cpp.
//
// Samples are converted in parallel; the result does not depend on the number of threads. A
// conversion that was killed, was interrupted or filled the disk can be resumed: its finished
// samples are kept in OUT.partial/ (spool.h). That folder is removed if it has no finished samples
// or if the data does not make a data set. Damaged samples are left out and listed with their
// reasons in OUT.quarantine.json.
//
// Errors: UsageError (unknown converter, option out of range), DataError (nothing usable, with the
// expected layout; an empty class, only one class, a class without training samples), OutputError
// (OUT exists and `force` is false, not writable, not enough space).

#include <functional>
#include <string>
#include <vector>

#include "convert/conversion.h"
#include "core/parallel.h"

namespace dtrain::convert {

std::vector<std::string> array_tasks();  // those of `dtrain convert arrays --task`

// What can be said of the options before anything is read: UsageError, and DataError if the source
// is not there. convert() begins with it.
void check_options(const std::string& name, const ConvertOptions&);

// Calls `begin` once, before anything is written, even if there is not enough space. Calls
// `progress` on the calling thread several times a second and at the end of each stage (listing,
// reading, writing); an exception from it stops the conversion, which can be resumed later.
ConvertSummary convert(const std::string& name, const ConvertOptions&,
                       const ReportProgress& progress = {},
                       const std::function<void(const ConvertPlan&)>& begin = {});

}  // namespace dtrain::convert
