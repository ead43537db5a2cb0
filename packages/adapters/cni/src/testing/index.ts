// SPDX-License-Identifier: Apache-2.0
// The second door: fakes of what this package does, and the suites that they pass as it does.
export { describeCniContract, describeNewCniContract } from "./contracts/cni.ts";
export { createFakeCni, type FakeCni } from "./fakes/cni.ts";
