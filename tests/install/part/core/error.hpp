// Of the project that has Tasuki as a part; Tasuki has a header of the same name.
#pragma once

struct ErrorOfThisProject {};
