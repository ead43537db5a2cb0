// SPDX-License-Identifier: Apache-2.0
import type { VmiSpec } from "@patchbay/api";
import { expect, test } from "vitest";
import { consoleLogOf } from "./console-log.ts";

type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

function loggedOf(devices: Devices, logsConsoles: boolean): boolean {
  const parts = { image: "launcher", securityContext: {}, logsConsoles };
  return consoleLogOf({ domain: { devices } }, parts).length === 1;
}

test.each<{ devices: Devices; byDefault: boolean; want: boolean }>([
  { devices: {}, byDefault: true, want: true },
  { devices: {}, byDefault: false, want: false },
  { devices: { logSerialConsole: false }, byDefault: true, want: false },
  { devices: { logSerialConsole: true }, byDefault: false, want: true },
  {
    devices: { autoattachSerialConsole: false, logSerialConsole: true },
    byDefault: true,
    want: false,
  },
])("$devices, where the cluster says $byDefault: $want", ({ devices, byDefault, want }) => {
  expect(loggedOf(devices, byDefault)).toBe(want);
});

test("the container reads the console's log, and can do nothing else", () => {
  const securityContext = { readOnlyRootFilesystem: true };
  const parts = { image: "launcher", securityContext, logsConsoles: true };
  expect(consoleLogOf({ domain: {} }, parts)).toMatchObject([
    {
      name: "guest-console-log",
      image: "launcher",
      command: ["/usr/bin/virt-tail"],
      securityContext,
      volumeMounts: [{ name: "launcher", mountPath: "/run/launcher", readOnly: true }],
      resources: { limits: { memory: "32Mi", cpu: "100m", "ephemeral-storage": "51Mi" } },
    },
  ]);
});
