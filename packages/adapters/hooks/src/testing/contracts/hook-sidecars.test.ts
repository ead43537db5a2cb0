// SPDX-License-Identifier: Apache-2.0
import { createFakeHookSidecars } from "../fakes/hook-sidecars.ts";
import { describeHookSidecarsContract } from "./hook-sidecars.ts";

describeHookSidecarsContract("in memory", () => {
  const hooks = createFakeHookSidecars();
  return Promise.resolve({
    hooks,
    start: (container, hook) => {
      hooks.put("uid-1", container, hook);
      return Promise.resolve();
    },
    end: (container) => {
      hooks.take("uid-1", container);
      return Promise.resolve();
    },
    close: () => Promise.resolve(),
  });
});
