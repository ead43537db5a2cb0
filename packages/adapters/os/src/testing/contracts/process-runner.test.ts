// SPDX-License-Identifier: Apache-2.0
// The fake of programs keeps the contract.
import { createFakeClock } from "../fakes/clock.ts";
import { createFakeProcessRunner } from "../fakes/process-runner.ts";
import { describeProcessRunnerContract } from "./process-runner.ts";

describeProcessRunnerContract("fake", () => {
  const clock = createFakeClock();
  const programs = {
    speaker: () => ({ exitCode: 3, stdout: "out\n", stderr: "err\n" }),
    echo: ({ stdin = "" }: { readonly stdin?: string }) => ({ stdout: stdin }),
    sleeper: () => new Promise<never>(() => undefined),
  };
  return {
    runner: createFakeProcessRunner(programs, clock),
    speaker: ["speaker"],
    echo: ["echo"],
    sleeper: ["sleeper"],
    pass: (ms) => clock.advance(ms),
  };
});
