#include "inspect/report.h"

#include <gtest/gtest.h>
