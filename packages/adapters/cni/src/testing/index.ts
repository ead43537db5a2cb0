// SPDX-License-Identifier: Apache-2.0
// Fakes of this package's ports, and the contract suites that fakes and adapters pass.
export { describeCniContract, describeNewCniContract } from "./contracts/cni.ts";
export { createFakeCni, type FakeCni } from "./fakes/cni.ts";
