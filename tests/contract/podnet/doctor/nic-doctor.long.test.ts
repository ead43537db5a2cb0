// SPDX-License-Identifier: Apache-2.0
// The doctor names the hop at which frames are dropped, for every planted fault that nic-doctor.test.ts leaves out.
import { describe } from "vitest";
import { OTHER_FAULTS, testPlantedFaults } from "./planted-faults.ts";

describe.concurrent("the doctor on the kernel", () => {
  testPlantedFaults(OTHER_FAULTS);
});
