// The element types of HDF5 data sets.
#pragma once

#include <string>

#include "array_files/element_type.hpp"
#include "array_files/hdf5/library.hpp"

namespace tasuki::hdf5 {

// Of integers and IEEE floating types in all their bits, and of h5py's booleans (an enumeration of
// FALSE and TRUE). Anything else is an error of kind data that names `place`. A Turn is held.
ElementType element_type_of(const Handle& type, std::string_view place);

}  // namespace tasuki::hdf5
