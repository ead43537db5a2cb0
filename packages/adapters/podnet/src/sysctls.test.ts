// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { listSysctlDirectories } from "./sysctls.ts";

test.each([
  { name: "on the host", hostProcess: undefined, want: ["/proc/sys/net"] },
  {
    name: "in a pod, by the process's namespace",
    hostProcess: 77,
    want: ["/proc/77/root/proc/sys/net", "/proc/sys/net"],
  },
])("writes settings $name", ({ hostProcess, want }) => {
  expect(listSysctlDirectories(hostProcess)).toEqual(want);
});
