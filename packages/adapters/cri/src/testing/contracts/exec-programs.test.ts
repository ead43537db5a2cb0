// SPDX-License-Identifier: Apache-2.0
import { createFakeExecPrograms } from "../fakes/exec-programs.ts";
import { describeExecProgramsContract } from "./exec-programs.ts";

describeExecProgramsContract("fake", () => {
  const programs = createFakeExecPrograms();
  let started = 0;
  const start = (): void => {
    started += 1;
    programs.start("c", `program-${String(started)}`);
  };
  return { programs, containerId: "c", start };
});
