// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseLastReason, planUp, pickMachineSettings } from "./up-plan.ts";

test.each([
  { phase: undefined, want: "start" },
  { phase: "starting", want: "follow" },
  { phase: "ready", want: "report" },
  { phase: "stopping", want: "replace" },
  { phase: "stopped", want: "replace" },
  { phase: "failed", want: "replace" },
] as const)("with a supervisor in phase $phase, up has to $want", ({ phase, want }) => {
  expect(planUp(phase)).toBe(want);
});

const NO_LOG = "the supervisor ended before its first log line; see /run/supervisor.out";

test.each([
  { name: "no log", log: undefined, want: NO_LOG },
  { name: "an empty log", log: "\n", want: NO_LOG },
  {
    name: "a line with a reason",
    log: 'start\n{"level":"error","reason":"no memory"}\n\n',
    want: "no memory",
  },
  { name: "a log line without a reason", log: '{"level":"error"}\n', want: '{"level":"error"}' },
  {
    name: "a plain text log",
    log: '{"reason":"early"}\nSegmentation fault\n',
    want: "Segmentation fault",
  },
])("the last reason in $name is $want", ({ log, want }) => {
  expect(parseLastReason(log, "/run/supervisor.out")).toBe(want);
});

test("contains only settings that are set", () => {
  const all = {
    apiPort: 7443,
    apiAddress: "192.0.2.1",
    nodeName: "a",
    podSubnet: "10.88.1.0/24",
    serviceSubnet: "10.97.0.0/16",
    bridge: "br1",
    dataplaneGroup: 900,
  };
  const settings = { ...all, dataDir: "/d", installService: true };
  expect(pickMachineSettings(settings)).toStrictEqual(all);
  expect(pickMachineSettings({})).toStrictEqual({});
});
