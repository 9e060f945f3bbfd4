// Fields as pictures.
#pragma once

#include <string>

// Writes values from 0 (black) over red and yellow to 1 (white) to a PNG file; throws if it cannot.
void write_picture(const std::string& path, const float* values, int rows, int columns,
                   int row_length);
