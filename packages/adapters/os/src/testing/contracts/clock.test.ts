// SPDX-License-Identifier: Apache-2.0
// The fake of time keeps the contract.
import { createFakeClock } from "../fakes/clock.ts";
import { describeClockContract } from "./clock.ts";

describeClockContract("fake", () => {
  const clock = createFakeClock();
  return { clock, pass: (ms) => clock.advance(ms) };
});
