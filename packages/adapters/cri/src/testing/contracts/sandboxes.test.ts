// SPDX-License-Identifier: Apache-2.0
// The fake of a container runtime keeps the contract.
import { createFakeSandboxes } from "../fakes/sandboxes.ts";
import { describeSandboxesContract } from "./sandboxes.ts";

describeSandboxesContract("fake", () => {
  const sandboxes = createFakeSandboxes();
  return {
    sandboxes,
    put: (sandbox) => {
      sandboxes.put(sandbox);
    },
    take: (podUid) => {
      sandboxes.take(podUid);
    },
  };
});
