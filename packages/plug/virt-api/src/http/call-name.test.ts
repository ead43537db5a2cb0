// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { callNameOf } from "./call-name.ts";

const VM = "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachines/b";

test.each([
  ["/mutate?timeout=10s", "mutate"],
  ["/validate", "validate"],
  [`${VM}/addinterface`, "addinterface"],
  [`${VM}/removeinterface?dryRun=All`, "removeinterface"],
  [`${VM}/console`, "other"],
  ["/apis", "other"],
  ["", "other"],
])("%j is %s", (url, want) => {
  expect(callNameOf(url)).toBe(want);
});
